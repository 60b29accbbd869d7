"""NVIDIA GPUs as PyTorch's scripts ask for them: how many there are, and waiting for their work.

Nothing here imports CuPy before it is known to be installed, so a script that only asks
`cuda.is_available()` costs nothing on a machine without it.
"""

from __future__ import annotations

import importlib.util
from types import TracebackType
from typing import Any

from .backends.backend import backend_of
from .core.device import Device
from .core.errors import DeviceError
from .core.generator import default_generator_of


def is_available() -> bool:
    """Return whether CuPy is installed and its driver has a GPU."""
    return device_count() > 0


def device_count() -> int:
    """Return how many GPUs there are; 0 without CuPy or without a driver."""
    if importlib.util.find_spec("cupy") is None:
        return 0
    try:
        return backend_of("cuda").device_count()
    except DeviceError:  # no driver, or no GPU: what the question is about
        return 0


def _index_of(device: Any) -> int:
    if device is None:
        return 0
    if isinstance(device, int):
        return device
    named = Device(device)
    if named.type != "cuda" or named.index is None:
        raise ValueError(f"Expected a cuda device, but got: {named}")
    return named.index


def synchronize(device: Any = None) -> None:
    """Wait for all work of a GPU, the first one unless named.

    Raises  DeviceError without a GPU, or for what failed there
    """
    backend_of("cuda").synchronize(_index_of(device))


def current_device() -> int:
    """Return the index of the GPU that "cuda" alone means: always 0.

    Raises  DeviceError without a GPU
    """
    backend_of("cuda")
    return 0


def current_stream(device: Any = None) -> Any:
    """Return the stream that this thread's work goes to.

    Raises  DeviceError without a GPU
    """
    return backend_of("cuda").current_stream(_index_of(device))


def Stream(device: Any = None) -> Any:
    """Return a side stream of a GPU. `with stream:` makes it this thread's current one.

    Raises  DeviceError without a GPU
    """
    return backend_of("cuda").stream(_index_of(device))


class stream:
    """`with stream(s):` makes s this thread's current stream; None leaves things as they are."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is not None:
            self.stream.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.stream is not None:
            self.stream.__exit__(kind, error, trace)


def manual_seed(seed: int) -> None:
    """Begin the first GPU's stream of random numbers anew, whether it is there or not."""
    default_generator_of(Device("cuda", 0)).manual_seed(seed)


def manual_seed_all(seed: int) -> None:
    """Begin the streams of random numbers of all GPUs anew."""
    for index in range(max(device_count(), 1)):
        default_generator_of(Device("cuda", index)).manual_seed(seed)


__all__ = [
    "Stream",
    "current_device",
    "current_stream",
    "device_count",
    "is_available",
    "manual_seed",
    "manual_seed_all",
    "stream",
    "synchronize",
]
