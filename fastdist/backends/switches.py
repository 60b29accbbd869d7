"""Helpers for the switches of backends: set them in a block, or by their newer names."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

# PyTorch's names for the float32 precision on a GPU, and whether each allows TF32.
_PRECISIONS = {"none": False, "ieee": False, "tf32": True}


@contextmanager
def set_for_a_block(module: str, **switches: Any) -> Iterator[None]:
    """Set switches of a module in this block, and restore them afterwards."""
    owner = sys.modules[module]
    before = {name: getattr(owner, name) for name in switches}
    try:
        for name, value in switches.items():
            setattr(owner, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(owner, name, value)


def require_bool(name: str, value: Any) -> bool:
    """Return the value of a switch.

    Raises  RuntimeError for anything but True or False
    """
    if not isinstance(value, bool):
        raise RuntimeError(f"{name}: expected a bool, but got {type(value).__name__}")
    return value


class Float32Precision:
    """`fp32_precision`, another name for a module's `allow_tf32`: "tf32" allows TF32; "ieee" and
    "none" do not.
    """

    __slots__ = ("_owner",)

    def __init__(self, owner: Any) -> None:
        self._owner = owner

    @property
    def fp32_precision(self) -> str:
        """The precision of float32: "tf32" if that is allowed, else "none"."""
        return "tf32" if self._owner.allow_tf32 else "none"

    @fp32_precision.setter
    def fp32_precision(self, precision: str) -> None:
        self._owner.allow_tf32 = allows_tf32(precision)


def allows_tf32(precision: str) -> bool:
    """Return whether a value of `fp32_precision` allows TF32.

    Raises  RuntimeError for an unknown precision
    """
    try:
        return _PRECISIONS[precision]
    except (KeyError, TypeError):
        raise RuntimeError(
            f"Unknown precision: {precision!r}; expected 'tf32', 'ieee' or 'none'"
        ) from None
