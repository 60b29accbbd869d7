"""The way to CuPy, and from its errors to ours."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from fastdist.core.errors import KernelError


@functools.cache
def cupy() -> Any:
    """Return CuPy, loaded at the first call."""
    return import_module("cupy")


@contextlib.contextmanager
def device_errors() -> Iterator[None]:
    """Turn what CUDA reports inside into KernelError."""
    cuda = cupy().cuda
    try:
        yield
    except (cuda.runtime.CUDARuntimeError, cuda.driver.CUDADriverError) as error:
        raise KernelError(f"cuda: {error}") from error
