"""PyTorch's switch for memory that is allocated and not written: it is not filled here."""

from __future__ import annotations

import sys
from types import ModuleType

__all__ = ["fill_uninitialized_memory"]

fill_uninitialized_memory: bool


class _Switch(ModuleType):
    """A module with one attribute that takes bools only."""

    _value = True

    @property
    def fill_uninitialized_memory(self) -> bool:
        """Whether deterministic algorithms fill new memory; kept, and without an effect."""
        return self._value

    @fill_uninitialized_memory.setter
    def fill_uninitialized_memory(self, mode: bool) -> None:
        if not isinstance(mode, bool):
            raise TypeError(f"expected a bool, but got {type(mode).__name__}")
        type(self)._value = mode


sys.modules[__name__].__class__ = _Switch
