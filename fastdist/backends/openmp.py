"""OpenMP: used if Numba or the BLAS runs its threads with OpenMP."""

from __future__ import annotations

from ..core.missing import explain_missing

__all__ = ["is_available"]


def is_available() -> bool:
    """Return True, as PyTorch does."""
    return True


explain_missing(__name__)
