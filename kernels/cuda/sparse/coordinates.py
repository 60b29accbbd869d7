"""Sums of entries of sparse tensors, on CUDA arrays."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from ..launch import (
    C_TYPES,
    THREADS,
    Launch,
    computing_type,
    headers_for,
    int64_fields,
    is_whole,
    launch,
    text_of,
)


def gather_add(x: Any, starts: Any, places: Any, weights: Any, out: Any) -> None:
    """Write into row i of out the sum of the rows of x at places[starts[i]:starts[i + 1]], each
    multiplied by its weight if weights are given. A place that is out of bounds counts as a row of
    NaN, or of the largest or smallest integer.
    """
    launch(plan_gather_add(x, starts, places, weights, out))


def plan_gather_add(x: Any, starts: Any, places: Any, weights: Any, out: Any) -> list[Launch]:
    """Return the launch of gather_add; no launch if out is empty.

    Note    all arrays except x are contiguous
    """
    if not out.size:
        return []
    steps = [step // x.dtype.itemsize for step in x.strides]
    sizes = x.shape[0], places.size
    fields = int64_fields(out.size, out.shape[1], *steps, weights is not None, *sizes)
    grid = (-(-out.size // THREADS), 1)
    given = out if weights is None else weights  # a pointer of the right type, which is not read
    arguments = (x, starts, places, given, out, fields)
    return [Launch(source_of(out.dtype), "gather_add", grid, arguments)]


def flat_places(indices: Any, out: Any, lengths: tuple[int, ...]) -> None:
    """Write into out the flat index of each column of indices, in C order over axes of `lengths`;
    -1 for a column that has an index out of bounds.
    """
    launch(plan_flat_places(indices, out, lengths))


def plan_flat_places(indices: Any, out: Any, lengths: tuple[int, ...]) -> list[Launch]:
    """Return the launch of flat_places; no launch without columns.

    Note    both arrays are contiguous
    """
    if not out.size:
        return []
    fields = int64_fields(out.size, 1, out.size, len(lengths), *(lengths or (1,)))
    source = source_of(out.dtype, max(len(lengths), 1))
    return [Launch(source, "flat_places", (-(-out.size // THREADS), 1), (indices, out, fields))]


def add_entries(values: Any, indices: Any, out: Any) -> None:
    """Add each value to out at the position given by its column of indices; no position occurs
    twice.

    A position that is out of bounds is skipped.
    """
    launch(plan_add_entries(values, indices, out))


def plan_add_entries(values: Any, indices: Any, out: Any) -> list[Launch]:
    """Return the launch of add_entries; no launch if there are no values.

    Note    all arrays are contiguous
    """
    if not values.size:
        return []
    axes, count = indices.shape
    lengths = out.shape[:axes]
    fields = int64_fields(values.size, math.prod(values.shape[1:]), count, axes, *(lengths or (1,)))
    grid = (-(-values.size // THREADS), 1)
    source = source_of(out.dtype, max(axes, 1))
    return [Launch(source, "add_entries", grid, (values, indices, out, fields))]


@functools.lru_cache(maxsize=256)
def source_of(dtype: np.dtype[Any], axes: int = 1) -> str:
    """Return the CUDA source for elements of a dtype and a number of axes of positions."""
    real = computing_type(dtype)
    return f"""{headers_for([dtype])}
typedef {C_TYPES[dtype]} Stored;
typedef {real} Real;
constexpr int AXES = {axes};
constexpr bool IS_WHOLE = {str(is_whole(dtype)).lower()};
{text_of("headers/poison.cuh", "sparse/coordinates.cu")}"""
