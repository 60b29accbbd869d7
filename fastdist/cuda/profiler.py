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
    """Start recording in a profiler that is attached."""
    cudart().cudaProfilerStart()


def stop() -> None:
    """Pause recording."""
    cudart().cudaProfilerStop()


@contextmanager
def profile() -> Iterator[None]:
    """Record this block in a profiler."""
    start()
    try:
        yield
    finally:
        stop()


explain_missing(__name__)
