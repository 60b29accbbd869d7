"""The number of GPUs and their indices; 0 GPUs if CuPy is not installed."""

from __future__ import annotations

import functools
import importlib.util
import sys
from typing import Any

from ..core.device import Device, current_gpu
from ..core.errors import DeviceError
from .backend import backend_of


def device_count() -> int:
    """Return the number of GPUs; 0 without CuPy or without a driver.

    Example:
        >>> torch.cuda.device_count() >= 0
        True
    """
    if "cupy" not in sys.modules and not _finds_cupy(*sys.path):
        return 0
    try:
        return backend_of("cuda").device_count()
    except DeviceError:  # no driver or no GPU
        return 0


@functools.lru_cache(maxsize=1)
def _finds_cupy(*folders: str) -> bool:
    """Return whether `folders`, which are the import path, have CuPy.

    The result is cached, because programs call `device_count` often. Without the cache, the import
    system would read the disk each time, which takes 44 us.
    """
    return importlib.util.find_spec("cupy") is not None


def index_of(device: Any) -> int:
    """Return the index of a GPU, given by name or number; None means this thread's current GPU.

    Raises  ValueError for a device that is not a GPU
    """
    if device is None:
        return current_gpu()
    if isinstance(device, int):
        return device
    named = Device(device)
    if named.type != "cuda" or named.index is None:
        raise ValueError(f"Expected a cuda device, but got: {named}")
    return named.index
