"""When NVIDIA's profilers record, as `nsys profile --capture-range=cudaProfilerApi` asks.

Raises  DeviceError, all of them, without a GPU
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..core.missing import explain_missing
from .runtime import cudart

__all__ = ["profile", "start", "stop"]


def start() -> None:
    """Let a profiler that waits for it record from now on."""
    cudart().cudaProfilerStart()


def stop() -> None:
    """Let the profiler pause."""
    cudart().cudaProfilerStop()


@contextmanager
def profile() -> Iterator[None]:
    """Let the profiler record a block."""
    start()
    try:
        yield
    finally:
        stop()


explain_missing(__name__)
