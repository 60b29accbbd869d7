"""Experimental parts of PyTorch's fx that packages import."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from ...core.missing import show_public
from ...core.refused import find_below

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
else:
    __getattr__ = functools.partial(find_below, __name__)

show_public(__name__)
