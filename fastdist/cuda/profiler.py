"""Start and stop NVIDIA's profilers, for `nsys profile --capture-range=cudaProfilerApi`.

Raises  DeviceError, from every function, without a GPU
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..core.missing import explain_missing
from .runtime import cudart

__all__ = ["profile", "start", "stop"]


def start() -> None:
    """Make an attached profiler start recording."""
    cudart().cudaProfilerStart()


def stop() -> None:
    """Make an attached profiler stop recording."""
    cudart().cudaProfilerStop()


@contextmanager
def profile() -> Iterator[None]:
    """Make an attached profiler record the `with` block."""
    start()
    try:
        yield
    finally:
        stop()


explain_missing(__name__)
