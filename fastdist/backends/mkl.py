"""MKL: not used; matrix products use NumPy's BLAS."""

from __future__ import annotations

from ..core.missing import explain_missing

__all__ = ["is_available"]


def is_available() -> bool:
    """Return False: MKL is not used."""
    return False


explain_missing(__name__)
