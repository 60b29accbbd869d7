"""How many GPUs there are, asked without loading anything where there can be none."""

from __future__ import annotations

import importlib.util

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
