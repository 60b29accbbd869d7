"""Pointwise ops, sum, matmul and an MLP step on an NVIDIA GPU, float32; ours beside torch's.

Times are between two events of the stream, so they are the GPU's: kernels, and the gaps in which it
waits for Python. Rates count what an op must read and write at least, or multiply and add. Products
are true float32 in both libraries, without TF32.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from bench.harness import Amount, Case, Row, Stopwatch, compare, peer_torch

ELEMENTS = (1 << 12, 1 << 20, 1 << 24)  # the last is more than a GPU's cache holds
PRODUCTS = (256, 1024, 4096)
MLPS = ((64, 256), (1024, 1024), (4096, 2048))  # batch, width
FLOAT_BYTES = 4

# What is done with x and y, and how many float32 it reads and writes for each element at least.
OPS: dict[str, tuple[Callable[[Any, Any], object], int]] = {
    "add": (lambda x, y: x + y, 3),
    "mul": (lambda x, y: x * y, 3),
    "relu": (lambda x, _: x.relu(), 2),
    "tanh": (lambda x, _: x.tanh(), 2),
    "sum": (lambda x, _: x.sum(), 1),
}


class Gpu(NamedTuple):
    """A library on one GPU, and how it tells the time there."""

    library: Any
    device: str
    event: Callable[[], Any]
    elapsed_ms: Callable[[Any, Any], float]

    def tensor(self, *shape: int, scale: float = 1.0, grad: bool = False) -> Any:
        """Return normal numbers, the same ones in every library."""
        import numpy as np

        values = np.random.default_rng(0).standard_normal(shape, np.float32) * np.float32(scale)
        return self.library.tensor(values, device=self.device, requires_grad=grad)

    def stopwatch(self, work: Callable[[], object]) -> Stopwatch:
        """Return a stopwatch that reads the device's clock before and after the work."""

        def watch(number: int) -> float:
            start, end = self.event(), self.event()
            start.record()
            for _ in range(number):
                work()
            end.record()
            end.synchronize()
            return self.elapsed_ms(start, end) / 1e3

        return watch


def run(rounds: int) -> list[Row]:
    """Compare what the module says; no rows, and the reason, where there is no GPU."""
    reason = what_is_missing()
    if reason is not None:
        print(f"no figures: {reason}")
        return []
    ours, peer = our_gpu(), peer_gpu()
    if peer is None:
        print("no peer: torch is not installed, or not with CUDA; ours alone")
    return compare(list(cases(ours, peer)), rounds)


def what_is_missing() -> str | None:
    """Return what keeps this machine from computing on a GPU, None if nothing does."""
    import fastdist
    from fastdist.core.errors import DeviceError

    try:
        fastdist.zeros(1, device="cuda:0")
    except DeviceError as error:
        return str(error)
    return None


def machine() -> dict[str, Any]:
    """Return what the figures depend on beside the harness's facts; nothing without a GPU."""
    if what_is_missing() is not None:
        return {}
    cupy = importlib.import_module("cupy")
    runtime = cupy.cuda.runtime
    torch = peer_torch()
    facts = {
        "gpu": runtime.getDeviceProperties(0)["name"].decode(),
        "driver": _driver_version(),
        "driver's CUDA": _cuda_version(runtime.driverGetVersion()),
        "CuPy": cupy.__version__,
        "CuPy's CUDA": _cuda_version(runtime.runtimeGetVersion()),
        "torch's CUDA": None if torch is None else torch.version.cuda,
    }
    return {name: fact for name, fact in facts.items() if fact is not None}


def _cuda_version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"


def _driver_version() -> str | None:
    try:
        text = Path("/proc/driver/nvidia/version").read_text()
    except OSError:
        return None
    found = re.search(r"\b\d+\.\d+(\.\d+)?\b", text)
    return None if found is None else found[0]


def our_gpu() -> Gpu:
    """Return fastdist on the first GPU."""
    import fastdist

    cuda = importlib.import_module("cupy").cuda
    return Gpu(fastdist, "cuda:0", cuda.Event, cuda.get_elapsed_time)


def peer_gpu() -> Gpu | None:
    """Return torch on the first GPU, None where it cannot use it."""
    torch = peer_torch()
    if torch is None or not torch.cuda.is_available():
        return None
    event = partial(torch.cuda.Event, enable_timing=True)
    return Gpu(torch, "cuda:0", event, lambda start, end: float(start.elapsed_time(end)))


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
    """Return forward, squared error and backward of the MLP, without optimiser."""
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
    """Return how often the products of one step multiply and add: x itself gets no gradient."""
    first, others = 784 * width, width * width + width * 10
    return 2 * batch * (2 * first + 3 * others)
