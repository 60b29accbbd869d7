"""OpenMP: in use where Numba or the BLAS has it for its threads."""

from __future__ import annotations

from ..core.missing import explain_missing

__all__ = ["is_available"]


def is_available() -> bool:
    """Return True."""
    return True


explain_missing(__name__)
