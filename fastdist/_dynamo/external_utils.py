"""Queries on PyTorch's compiler that other packages use."""

from __future__ import annotations

from ..compiler import is_compiling
from ..core.missing import explain_missing

__all__ = ["is_compiling"]

explain_missing(__name__)
