"""How many GPUs there are, and which is meant: asked without loading anything where none can be."""

from __future__ import annotations

import importlib.util
from typing import Any

from ..core.device import Device, current_gpu
from ..core.errors import DeviceError
from .backend import backend_of


def device_count() -> int:
    """Return how many GPUs there are; 0 without CuPy or without a driver."""
    if importlib.util.find_spec("cupy") is None:
        return 0
    try:
        return backend_of("cuda").device_count()
    except DeviceError:  # no driver, or no GPU: what the question is about
        return 0


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
