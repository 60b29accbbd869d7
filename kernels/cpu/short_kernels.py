"""All kernels for small arrays, by the names of those that they stand in for."""

from __future__ import annotations

from . import short_indexing, short_reductions, short_rows
from .short import GRADIENTS, KERNELS, Facts, Run

__all__ = ["short_gradients", "short_indexing", "short_kernel", "short_reductions", "short_rows"]


def short_kernel(name: str, facts: Facts) -> Run | None:
    """Return the function that makes a fresh result (or a tuple of results) of raw arrays."""
    maker = KERNELS.get(name)
    return None if maker is None else maker(facts)


def short_gradients(name: str, facts: Facts) -> tuple[Run | None, ...] | None:
    """Return the functions that make the gradients; None where the op's own vjps shall."""
    maker = GRADIENTS.get(name)
    return None if maker is None else maker(facts)
