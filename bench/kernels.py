"""Kernels along rows of 1,000 float32, 1e4 to 5e7 elements, against PyTorch and memory bandwidth.

At 1e6 elements some kernels also run along rows of other lengths.

A case reaches its target with at most 0.7 of PyTorch's time (0.4 if the result is as large as the
input and has 1e7 elements or more). A case also reaches its target with 85 % of the read bandwidth
of a BLAS dot product of as many elements. The figure after a name is this share: the bytes that the
work must read or write once, divided by the time of the work, relative to the dot product's rate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from bench.harness import Amount, Case, Row, Stopwatch, chosen, compare, peer_torch, stopwatch

SIZES = (10_000, 100_000, 1_000_000, 10_000_000, 50_000_000)
LARGE = 10_000_000
ENOUGH = 0.85


class Kernel(NamedTuple):
    """A statement over x, and the memory that it must access, as a multiple of the memory of x."""

    statement: str
    passes: float
    backward: float


# `backward` includes the forward pass; the gradient of a sum also writes as much memory as x has.
KERNELS = {
    "sum": Kernel("x.sum()", 1, 2),
    "sum of rows": Kernel("x.sum(1)", 1, 2),
    "sum of columns": Kernel("x.sum(0)", 1, 2),
    "mean of rows": Kernel("x.mean(1)", 1, 2),
    "max": Kernel("x.max()", 1, 3),
    "amax of rows": Kernel("x.amax(1)", 1, 3),
    "var": Kernel("x.var()", 1, 3),
    "var of rows": Kernel("x.var(1)", 1, 3),
    "norm": Kernel("x.norm()", 1, 3),
    "norm of rows": Kernel("x.norm(2, 1)", 1, 3),
    "logsumexp": Kernel("x.logsumexp(1)", 1, 3),
    "softmax": Kernel("F.softmax(x, 1)", 2, 5),
    "log_softmax": Kernel("F.log_softmax(x, 1)", 2, 5),
    "layer_norm": Kernel("F.layer_norm(x, shape, weight, bias)", 2, 5),
    "rms_norm": Kernel("F.rms_norm(x, shape, weight)", 2, 5),
    "cross_entropy": Kernel("F.cross_entropy(x, target)", 1, 3),
}
# Row lengths for which most kernels use different code paths; arrays have MIDDLING elements.
LENGTHS = (7, 100, 33_000)
OF_LENGTHS = ("sum of rows", "amax of rows", "softmax", "layer_norm", "cross_entropy")
MIDDLING = 1_000_000
AS_LARGE = ("softmax", "log_softmax", "layer_norm", "rms_norm")


def run(rounds: int) -> list[Row]:
    """Compare each kernel alone, and with its gradients."""
    rows = []
    for size in SIZES:
        # Large sizes run one kernel at a time: the arrays of all kernels would exceed the memory.
        lots = [tuple(KERNELS)] if size < LARGE else [(name,) for name in KERNELS]
        for names in lots:
            rows += of_size(size, rounds, names)
    for length in LENGTHS:
        rows += of_size(MIDDLING, rounds, OF_LENGTHS, length)
    return rows


def of_size(
    size: int, rounds: int, names: Any = tuple(KERNELS), length: int | None = None
) -> list[Row]:
    """Compare kernels by name over `size` elements, in rows of 1,000 or of another length."""
    in_rows = f" in rows of {length:,}" if length else ""
    wanted = [
        (title, name, backward)
        for name in names
        for backward in (False, True)
        if chosen() in (title := _title(name, backward, size) + in_rows)
    ]
    if not wanted:
        return []
    import fastdist

    torch = peer_torch()
    halves = f"dot product of halves, {size:.0e}"
    cases = [Case(halves, _reading(size), amount=_bytes(size, 1), measures=True)]
    for title, name, backward in wanted:
        ours = stopwatch(_work(fastdist, name, size, backward, length))
        peer = stopwatch(_work(torch, name, size, backward, length)) if torch else None
        kernel = KERNELS[name]
        pays = size >= LARGE and (backward or name in AS_LARGE)
        amount = _bytes(size, kernel.backward if backward else kernel.passes)
        cases.append(Case(title, ours, peer, 0.4 if pays else 0.7, 1, None, amount))
    reading, *rows = compare(cases, rounds if size < LARGE else min(rounds, 7))
    return [reading, *[_beside(reading, row) for row in rows]]


def _title(name: str, backward: bool, size: int) -> str:
    return f"{name}{' and backward' if backward else ''}, {size:.0e}"


def _beside(reading: Row, row: Row) -> Row:
    """Return row with its share of the bandwidth in its name; no target if the share is enough.

    The row is returned unchanged if another process times the cases.
    """
    if row.amount is None or reading.amount is None:
        return row
    rates = [one.amount.value / one.ours_s.median for one in (row, reading) if one.amount]
    share = rates[0] / rates[1]
    target = None if share >= ENOUGH else row.target
    return replace(row, name=f"{row.name} ({share:.0%})", target=target)


def _bytes(size: int, passes: float) -> Amount:
    return Amount(4.0 * size * passes, "GB/s")


def _reading(size: int) -> Stopwatch:
    import numpy as np

    halves = np.ones((2, size // 2), np.float32)
    return stopwatch("a.dot(b)", a=halves[0], b=halves[1])


def _work(
    library: Any, name: str, size: int, backward: bool, length: int | None = None
) -> Callable[[], Any]:
    import numpy as np

    rng = np.random.default_rng(0)
    length = length or min(1000, size // 100)
    shape = (size // length, length)

    def leaf(*shape: int) -> Any:
        values = rng.standard_normal(shape, np.float32)
        return library.tensor(values).requires_grad_(backward)

    x, weight, bias = leaf(*shape), leaf(length), leaf(length)
    target = library.tensor(rng.integers(0, length, shape[0]))
    names = {"x": x, "weight": weight, "bias": bias, "target": target, "shape": (length,)}
    names["F"] = library.nn.functional
    function: Callable[[], Any] = eval(f"lambda: {KERNELS[name].statement}", names)
    if not backward:
        return function
    g = library.ones_like(function().detach())

    def work() -> None:
        x.grad = weight.grad = bias.grad = None
        function().backward(g)

    return work
