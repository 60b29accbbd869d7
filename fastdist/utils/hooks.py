"""PyTorch's file of hooks, by its name: the handle by which one is taken back."""

from __future__ import annotations

from ..core.missing import explain_missing
from ..graph.node import RemovableHandle

__all__ = ["RemovableHandle"]

explain_missing(__name__)
