"""PyTorch's graph compiler: not supported; settings are stored, and compiling raises an error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..compiler import cudagraph_mark_step_begin
from ..core.refused import offer_refused
from . import config

__all__ = ["config", "cudagraph_mark_step_begin"]

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
else:
    offer_refused(globals())
