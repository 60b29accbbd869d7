"""Kernels and training steps on an NVIDIA GPU, float32, against copies, CuPy, jax and torch.

Times are between two events of the stream: they include kernels, and gaps in which the GPU waits
for Python. Rates count only the bytes that an op must read and write, or the multiplications and
additions that it must do. Products are true float32 in all libraries, without TF32. The arrays that
are compared with a copy exceed a GPU's cache.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from bench.gpus import gpu_bandwidth, gpu_models
from bench.gpus.on_gpu import FLOAT_BYTES, Gpu, machine, our_gpu, peer_gpu, what_is_missing
from bench.harness import Amount, Case, Failed, Row, compare

__all__ = ["machine", "run"]

MINUTES = 8
ELEMENTS = (1 << 12, 1 << 20, 1 << 24)  # the last size exceeds a GPU's cache
PRODUCTS = (256, 1024, 4096)
MLPS = ((64, 256), (1024, 1024), (4096, 2048))  # (batch, width)

# Name -> (function of x and y, the least number of float32 that it reads and writes per element).
OPS: dict[str, tuple[Callable[[Any, Any], object], int]] = {
    "add": (lambda x, y: x + y, 3),
    "mul": (lambda x, y: x * y, 3),
    "relu": (lambda x, _: x.relu(), 2),
    "tanh": (lambda x, _: x.tanh(), 2),
    "sum": (lambda x, _: x.sum(), 1),
}


def run(rounds: int) -> list[Row]:
    """Compare kernels and training steps; without a GPU, print the reason and return no rows.

    Raises  Failed that names the groups for which 8 minutes were too short
    """
    reason = what_is_missing()
    if reason is not None:
        print(f"no figures: {reason}")
        return []
    ours, peer = our_gpu(), peer_gpu()
    if peer is None:
        print("no peer: torch is not installed, or not with CUDA; ours alone")
    groups = {
        "beside a copy": lambda: gpu_bandwidth.cases(ours),
        "one small op": lambda: [gpu_bandwidth.small_op(ours)],
        "products": lambda: gpu_bandwidth.products(ours),
        "attention": lambda: gpu_models.attention(ours, peer),
        "models": lambda: gpu_models.cases(ours, peer),
        "ops": lambda: cases(ours, peer),
        "beside jax": lambda: gpu_bandwidth.beside_jax(ours),
    }
    return measured(groups, rounds, time.monotonic() + MINUTES * 60)


def measured(
    groups: Mapping[str, Callable[[], Iterable[Case]]], rounds: int, until_s: float
) -> list[Row]:
    """Return the rows of groups of cases; each group is created just before its cases are timed.

    Raises  Failed that names the groups that had not started when time.monotonic() reached until_s
    """
    rows: list[Row] = []
    left = []
    for name, group in groups.items():
        if time.monotonic() >= until_s:
            left.append(name)
        else:
            # A group's memory on the GPU is freed before the next group is created.
            rows += compare(list(group()), rounds, until_s)
    if left:
        raise Failed(f"{MINUTES} minutes were too short for: {', '.join(left)}", rows)
    return rows


def cases(
    ours: Gpu,
    peer: Gpu | None,
    elements: tuple[int, ...] = ELEMENTS,
    products: tuple[int, ...] = PRODUCTS,
    mlps: tuple[tuple[int, int], ...] = MLPS,
) -> Iterator[Case]:
    """Yield a case for each op and size."""

    def case(name: str, make: Callable[[Gpu], Callable[[], object]], amount: Amount) -> Case:
        watches = [None if gpu is None else gpu.stopwatch(make(gpu)) for gpu in (ours, peer)]
        assert watches[0] is not None
        return Case(name, watches[0], watches[1], amount=amount)

    for size in elements:
        title = f"{size:,} elements"
        for name, (work, floats) in OPS.items():
            moved = Amount(floats * size * FLOAT_BYTES, "GB/s")
            yield case(f"{name}, {title}", partial(_op, work, size), moved)
        moved = Amount(3 * size * FLOAT_BYTES, "GB/s")
        yield case(f"backward of tanh (g * partial), {title}", partial(_backward, size), moved)
    for size in products:
        computed = Amount(2 * size**3, "GFLOP/s")
        yield case(f"matmul, {size} x {size}", partial(_product, size), computed)
    for batch, width in mlps:
        computed = Amount(mlp_flops(batch, width), "GFLOP/s")
        title = f"MLP 784-{width}-{width}-10, batch {batch}, forward and backward"
        yield case(title, partial(mlp_step, batch, width), computed)


def _op(work: Callable[[Any, Any], object], size: int, gpu: Gpu) -> Callable[[], object]:
    return partial(work, gpu.tensor(size), gpu.tensor(size))


def _product(size: int, gpu: Gpu) -> Callable[[], object]:
    x, y = gpu.tensor(size, size), gpu.tensor(size, size)
    return lambda: x @ y


def _backward(size: int, gpu: Gpu) -> Callable[[], object]:
    x, g = gpu.tensor(size, grad=True), gpu.tensor(size)
    y = x.tanh()

    def work() -> None:
        x.grad = None
        y.backward(g, retain_graph=True)

    return work


def mlp_step(batch: int, width: int, gpu: Gpu) -> Callable[[], object]:
    """Return a step without optimiser: forward, squared error and backward of the MLP."""
    x, wanted = gpu.tensor(batch, 784), gpu.tensor(batch, 10)
    layers = ((784, width), (width, width), (width, 10))
    weights = [gpu.tensor(*shape, scale=0.05, grad=True) for shape in layers]
    biases = [gpu.tensor(shape[1], scale=0.05, grad=True) for shape in layers]

    def step() -> None:
        h = (x @ weights[0] + biases[0]).relu()
        h = (h @ weights[1] + biases[1]).relu()
        error = h @ weights[2] + biases[2] - wanted
        for leaf in (*weights, *biases):
            leaf.grad = None
        (error * error).sum().backward()

    return step


def mlp_flops(batch: int, width: int) -> int:
    """Return the floating-point operations of one step's products; x itself gets no gradient."""
    first, others = 784 * width, width * width + width * 10
    return 2 * batch * (2 * first + 3 * others)
