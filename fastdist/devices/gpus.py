"""How many GPUs there are, and which is meant: asked without loading anything where none can be."""

from __future__ import annotations

import functools
import importlib.util
import sys
from typing import Any

from ..core.device import Device, current_gpu
from ..core.errors import DeviceError
from .backend import backend_of


def device_count() -> int:
    """Return how many GPUs there are; 0 without CuPy or without a driver.

    Example:
        >>> torch.cuda.device_count() >= 0
        True
    """
    if "cupy" not in sys.modules and not _finds_cupy(*sys.path):
        return 0
    try:
        return backend_of("cuda").device_count()
    except DeviceError:  # no driver, or no GPU: what the question is about
        return 0


@functools.lru_cache(maxsize=1)
def _finds_cupy(*folders: str) -> bool:
    """Return whether a folder of the import path has CuPy. Programs ask again and again, and the
    import system reads the disk each time: 44 us.
    """
    return importlib.util.find_spec("cupy") is not None


def index_of(device: Any) -> int:
    """Return the index of the GPU that a name, a number or None, this thread's own, stands for.

    Raises  ValueError for another kind of device
    """
    if device is None:
        return current_gpu()
    if isinstance(device, int):
        return device
    named = Device(device)
    if named.type != "cuda" or named.index is None:
        raise ValueError(f"Expected a cuda device, but got: {named}")
    return named.index
