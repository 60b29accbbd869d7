"""The CPU, with the functions that PyTorch has for every kind of device."""

from __future__ import annotations

from typing import Any

from ..core.missing import explain_missing
from ..kernels.cpu import memory
from . import amp

__all__ = [
    "amp",
    "current_device",
    "device_count",
    "empty_cache",
    "is_available",
    "is_initialized",
    "set_device",
    "synchronize",
]


def is_available() -> bool:
    """Return True."""
    return True


def is_initialized() -> bool:
    """Return True."""
    return True


def device_count() -> int:
    """Return 1."""
    return 1


def empty_cache() -> None:
    """Return the cached memory of freed large tensors to the operating system."""
    memory.empty_cache()


def current_device() -> str:
    """Return "cpu"."""
    return "cpu"


def set_device(device: Any) -> None:
    """Do nothing: there is only one CPU device."""


def synchronize(device: Any = None) -> None:
    """Do nothing: a call's work on the CPU is done when the call returns."""


explain_missing(__name__)
