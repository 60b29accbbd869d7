"""Permutations from the row swaps of an LU factorisation, on CUDA arrays."""

from __future__ import annotations

from typing import Any

from ..launch import THREADS, Launch, int64_fields, text_of


def plan_permutation(pivots: Any, out: Any) -> list[Launch]:
    """Return the launch that writes into out the order of the rows after the row swaps that pivots
    (counted from 1) describe; no launch if out is empty.

    pivots: int32, (..., swaps), out: int64, (..., rows); both in C order
    """
    if not out.size:
        return []
    task = int64_fields(out.size, out.shape[-1], pivots.shape[-1])
    grid = (-(-out.size // THREADS), 1)
    return [Launch(text_of_swaps(), "permutation", grid, (pivots, out, task))]


def text_of_swaps() -> str:
    """Return the CUDA source."""
    return text_of("linalg/swaps.cu")
