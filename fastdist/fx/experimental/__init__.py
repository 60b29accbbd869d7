"""Parts of PyTorch's graphs of programs that packages import."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from ...core.refused import find_below

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
else:
    __getattr__ = functools.partial(find_below, __name__)
