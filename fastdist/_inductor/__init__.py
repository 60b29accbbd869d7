"""PyTorch's compiler of graphs, switched off: settings are kept, compiling refuses."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from ..compiler import cudagraph_mark_step_begin
from ..core.refused import find_below, refused_in
from . import config

_refused = refused_in(__name__)
globals().update(_refused)
__all__ = ["config", "cudagraph_mark_step_begin", *_refused]  # noqa: PLE0604 (a table has them)

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
else:
    __getattr__ = functools.partial(find_below, __name__)
