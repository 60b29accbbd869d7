"""PyTorch's class of compiled modules, for `isinstance`. It has no instances."""

from __future__ import annotations

from ..compiler import disable, reset
from ..core.missing import NO_GRAPHS, explain_missing
from ..core.refusing import refusing_class

__all__ = ["OptimizedModule", "disable", "reset"]

OptimizedModule = refusing_class(__name__, "OptimizedModule", NO_GRAPHS)

explain_missing(__name__)
