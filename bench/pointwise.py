"""Pointwise ops on 64 to 5e7 float32 numbers, and on fewer float16 or bfloat16 ones.

After the times, the table shows each op's memory bandwidth as a share of the machine's triad (read
two arrays and write a third). Times of ops with large results include page faults, in both
libraries.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from bench.harness import Amount, Case, Row, compare, peer_torch, stopwatch
from bench.optimizers import machine, triad

__all__ = ["machine", "run"]

FEW = 64
SIZES = (FEW, 100_000, 1_000_000, 10_000_000, 50_000_000)
LARGE = 10_000_000
TARGET = 0.8


class Kernel(NamedTuple):
    """An expression over x and y, and its memory traffic in float32 arrays of the size of x."""

    expression: str
    arrays: float


KERNELS = {
    "add": Kernel("x + y", 3),
    "mul by a number": Kernel("x * 0.7", 2),
    "copysign in place": Kernel("z.copysign_(y)", 3),
    "relu in place": Kernel("z.relu_()", 2),
    "mul by a number in place": Kernel("z.mul_(1.0)", 2),
    "add a number in place": Kernel("z.add_(0.0)", 2),
    "float64 mul by a number in place": Kernel("d.mul_(1.0)", 4),
    "where": Kernel("x.where(x > y, y)", 3),
    "exp": Kernel("x.exp()", 2),
    "sigmoid": Kernel("x.sigmoid()", 2),
    "gelu": Kernel("gelu(x)", 2),
}
# Expressions over b and c, which are bfloat16, and h, k and l, which are float16. The number is the
# memory traffic in float32 arrays. The gradient of l accumulates from call to call.
HALVES = {
    "to float16": Kernel("x.half()", 1.5),
    "from float16": Kernel("h.float()", 1.5),
    "to bfloat16": Kernel("x.bfloat16()", 1.5),
    "from bfloat16": Kernel("b.float()", 1.5),
    "float16 mul by a number": Kernel("h * 0.7", 1),
    "float16 mul by a number in place": Kernel("k.mul_(1.0)", 1),
    "float16 mul by a number there and back": Kernel("(l * 0.7).backward(h)", 3),
    "float16 less a number": Kernel("h - 0.1", 1),
    "float16 above a number": Kernel("h > 0.1", 0.75),
    "float16 clamp": Kernel("h.clamp(-0.5, 0.5)", 1),
    "float16 leaky_relu": Kernel("leaky_relu(h)", 1),
    "float16 exp": Kernel("h.exp()", 1),
    "bfloat16 mul by a number": Kernel("b * 0.7", 1),
    "bfloat16 mul by a number in place": Kernel("c.mul_(1.0)", 1),
    "bfloat16 clamp": Kernel("b.clamp(-0.5, 0.5)", 1),
    "bfloat16 gelu": Kernel("gelu(b)", 1),
    "float16 gelu": Kernel("gelu(h)", 1),
    "bfloat16 sigmoid": Kernel("b.sigmoid()", 1),
    "bfloat16 sin": Kernel("b.sin()", 1),
}

# Ops that are also timed on few elements, where the overhead of the call dominates.
CALLS = {
    "clamp": Kernel("x.clamp(-0.5, 0.5)", 2),
    "mul by a number in place": KERNELS["mul by a number in place"],
    **{name: HALVES[name] for name in ("float16 clamp", "bfloat16 clamp", "float16 leaky_relu")},
}


def run(rounds: int) -> list[Row]:
    """Compare each op at each size; ours against torch."""
    rate, rows = triad(), []
    for size in SIZES:
        rows += of_size(size, rounds if size < LARGE else min(rounds, 7), rate)
    return rows


def of_size(size: int, rounds: int, rate: float) -> list[Row]:
    """Compare each op on `size` elements; `rate` is the triad's bandwidth in bytes per second."""
    import fastdist

    torch = peer_torch()
    cases = []
    kernels = CALLS if size == FEW else KERNELS if size >= LARGE else KERNELS | HALVES
    for name, (expression, arrays) in kernels.items():
        ours, peer = (
            None if one is None else stopwatch(_work(one, expression, size))
            for one in (fastdist, torch)
        )
        assert ours is not None
        amount = Amount(4.0 * arrays * size / rate * 1e9, "of triad")
        cases.append(Case(f"{name}, {size:.2g}", ours, peer, TARGET, amount=amount))
    return compare(cases, rounds)


def _work(library: Any, expression: str, size: int) -> Callable[[], Any]:
    import numpy as np

    rng = np.random.default_rng(0)
    x, y = (library.tensor(rng.standard_normal(size, dtype=np.float32)) for _ in range(2))
    made: dict[str, Callable[[], Any]] = {
        "x": lambda: x,
        "y": lambda: y,
        "z": x.clone,
        "d": x.double,
    }
    made |= {"h": x.half, "k": x.half, "l": lambda: x.half().requires_grad_()}
    made |= {"b": x.bfloat16, "c": x.bfloat16}
    used = compile(expression, "<expression>", "eval").co_names  # all of `made` exceed the memory
    names: dict[str, Any] = {name: make() for name, make in made.items() if name in used}
    names |= {name: getattr(library.nn.functional, name) for name in ("gelu", "leaky_relu")}
    function: Callable[[], Any] = eval(f"lambda: {expression}", names)
    return function
