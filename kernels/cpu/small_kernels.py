"""All kernels for small arrays, by the names of those that they stand in for."""

from __future__ import annotations

from . import fourier, small_indexing, small_reductions, small_rows
from .small import GRADIENTS, KERNELS, Facts, Run

__all__ = [
    "fourier",
    "small_gradients",
    "small_indexing",
    "small_kernel",
    "small_reductions",
    "small_rows",
]


def small_kernel(name: str, facts: Facts) -> Run | None:
    """Return the function that makes a fresh result (or a tuple of results) of raw arrays."""
    maker = KERNELS.get(name)
    return None if maker is None else maker(facts)


def small_gradients(name: str, facts: Facts) -> tuple[Run | None, ...] | None:
    """Return the functions that make the gradients; None where the op's own vjps shall."""
    maker = GRADIENTS.get(name)
    return None if maker is None else maker(facts)
