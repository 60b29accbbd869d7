"""Switches of backends: set for a block, and by their newer names."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

# PyTorch's names of how float32 may be computed on a GPU -> whether TF32 is allowed.
_PRECISIONS = {"none": False, "ieee": False, "tf32": True}


@contextmanager
def set_for_a_block(module: str, **switches: Any) -> Iterator[None]:
    """Set the module's switches, and put them back after the block."""
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
    """Return a switch's value.

    Raises  RuntimeError for anything but True and False
    """
    if not isinstance(value, bool):
        raise RuntimeError(f"{name}: expected a bool, but got {type(value).__name__}")
    return value


class Float32Precision:
    """`fp32_precision` next to a module's `allow_tf32`: another name of the same switch. "tf32"
    allows TF32; "ieee" and "none" do not.
    """

    __slots__ = ("_owner",)

    def __init__(self, owner: Any) -> None:
        self._owner = owner

    @property
    def fp32_precision(self) -> str:
        """How float32 is computed: "tf32" where that is allowed, else "none"."""
        return "tf32" if self._owner.allow_tf32 else "none"

    @fp32_precision.setter
    def fp32_precision(self, precision: str) -> None:
        self._owner.allow_tf32 = allows_tf32(precision)


def allows_tf32(precision: str) -> bool:
    """Return whether a value of `fp32_precision` allows TF32.

    Raises  RuntimeError for one that a GPU does not have
    """
    try:
        return _PRECISIONS[precision]
    except (KeyError, TypeError):
        raise RuntimeError(
            f"Unknown precision: {precision!r}; expected 'tf32', 'ieee' or 'none'"
        ) from None
