"""MKL: not in use; products are NumPy's BLAS."""

from __future__ import annotations

from ..core.missing import explain_missing

__all__ = ["is_available"]


def is_available() -> bool:
    """Return False."""
    return False


explain_missing(__name__)
