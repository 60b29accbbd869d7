"""Algorithms on process groups, which refuse yet, and activation checkpointing, which is real."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from ...core.refused import find_below, refused_in

_refused = refused_in(__name__)
globals().update(_refused)
__all__ = [*_refused]  # noqa: PLE0604 (a table has the names)

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
else:
    __getattr__ = functools.partial(find_below, __name__)
