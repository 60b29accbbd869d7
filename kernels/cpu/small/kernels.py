"""All kernels for small arrays, by the names of those that they stand in for."""

from __future__ import annotations

from . import convolution, indexing, reductions, rows, second_gradients
from .call_facts import GRADIENTS, KERNELS, CallFacts, Run

__all__ = [
    "convolution", "indexing", "reductions", "rows", "second_gradients", "small_gradients",
    "small_kernel", "transforms",
]  # fmt: skip


def small_kernel(name: str, facts: CallFacts) -> Run | None:
    """Return the function that makes a fresh result (or a tuple of results) of raw arrays."""
    _load_family(name)
    maker = KERNELS.get(name)
    return None if maker is None else maker(facts)


def small_gradients(name: str, facts: CallFacts) -> tuple[Run | None, ...] | None:
    """Return the functions that make the gradients; None where the op's own vjps shall."""
    _load_family(name)
    maker = GRADIENTS.get(name)
    return None if maker is None else maker(facts)
