"""PyTorch's switch to fill uninitialized memory: it can be set, and has no effect."""

from __future__ import annotations

import sys
from types import ModuleType

from ..core.missing import show_public

__all__ = ["fill_uninitialized_memory"]

fill_uninitialized_memory: bool


class _Switch(ModuleType):
    """A module with one attribute, which accepts only bools."""

    _value = True

    @property
    def fill_uninitialized_memory(self) -> bool:
        """Whether deterministic algorithms fill new memory; has no effect."""
        return self._value

    @fill_uninitialized_memory.setter
    def fill_uninitialized_memory(self, mode: bool) -> None:
        if not isinstance(mode, bool):
            raise TypeError(f"expected a bool, but got {type(mode).__name__}")
        type(self)._value = mode


sys.modules[__name__].__class__ = _Switch

show_public(__name__)
