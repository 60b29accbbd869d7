"""PyTorch's signal package: window functions."""

from __future__ import annotations

from ..core.missing import explain_missing
from . import windows

__all__ = ["windows"]

explain_missing(__name__, windows.__name__)
