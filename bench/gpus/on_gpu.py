"""A library on the first GPU, with its timing, and copies for comparison."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from bench.harness import Amount, Case, Stopwatch, peer_torch

FLOAT_BYTES = 4


class Gpu(NamedTuple):
    """A library on one GPU, with its functions for timing."""

    library: Any
    device: str
    event: Callable[[], Any]
    elapsed_ms: Callable[[Any, Any], float]

    def tensor(self, *shape: int, scale: float = 1.0, grad: bool = False) -> Any:
        """Return normally distributed numbers, the same in every library."""
        import numpy as np

        values = np.random.default_rng(0).standard_normal(shape, np.float32) * np.float32(scale)
        return self.library.tensor(values, device=self.device, requires_grad=grad)

    def stopwatch(self, work: Callable[[], object]) -> Stopwatch:
        """Return a stopwatch that measures work between two events of the device."""

        def watch(number: int) -> float:
            start, end = self.event(), self.event()
            start.record()
            for _ in range(number):
                work()
            end.record()
            end.synchronize()
            return self.elapsed_ms(start, end) / 1e3

        return watch


def what_is_missing() -> str | None:
    """Return why this machine cannot compute on a GPU, or None if it can."""
    import fastdist
    from fastdist.core.errors import DeviceError

    try:
        fastdist.zeros(1, device="cuda:0")
    except DeviceError as error:
        return str(error)
    return None


def machine() -> dict[str, Any]:
    """Return the facts about the GPU that figures depend on; an empty dict without a GPU."""
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
    """Return torch on the first GPU, or None if torch cannot use it."""
    torch = peer_torch()
    if torch is None or not torch.cuda.is_available():
        return None
    event = partial(torch.cuda.Event, enable_timing=True)
    return Gpu(torch, "cuda:0", event, lambda start, end: float(start.elapsed_time(end)))


def copier(num_bytes: int) -> Callable[[], object]:
    """Return a function that copies num_bytes within the GPU's memory, by CUDA's own copy."""
    cupy = importlib.import_module("cupy")
    one, other = (cupy.empty((num_bytes,), "uint8") for _ in range(2))
    stream = cupy.cuda.get_current_stream(0)
    return lambda: one.data.copy_from_device_async(other.data, num_bytes, stream)


def beside_a_copy(
    name: str, gpu: Gpu, work: Callable[[], object], num_bytes: int, share: float
) -> Case:
    """Return a case that compares `work`, which reads and writes num_bytes, with a copy.

    `share` is the fraction of the copy's bandwidth that `work` must reach.
    """
    copy = gpu.stopwatch(copier(num_bytes // 2))
    amount = Amount(num_bytes, "GB/s")
    return Case(f"{name}, beside a copy", gpu.stopwatch(work), copy, 1 / share, amount=amount)
