"""Entries of sparse tensors added up, on CUDA arrays."""

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
    times its weight, if there are weights. A row that x does not have counts as NaN, or as the
    integer that is farthest out.
    """
    launch(plan_gather_add(x, starts, places, weights, out))


def plan_gather_add(x: Any, starts: Any, places: Any, weights: Any, out: Any) -> list[Launch]:
    """Return the launch; none if out is empty.

    Note    all but x are gapless
    """
    if not out.size:
        return []
    steps = [step // x.dtype.itemsize for step in x.strides]
    sizes = x.shape[0], places.size
    fields = int64_fields(out.size, out.shape[1], *steps, weights is not None, *sizes)
    grid = (-(-out.size // THREADS), 1)
    given = out if weights is None else weights  # an address of the right type, not read
    arguments = (x, starts, places, given, out, fields)
    return [Launch(source_of(out.dtype), "gather_add", grid, arguments)]


def flat_places(indices: Any, out: Any, lengths: tuple[int, ...]) -> None:
    """Write the number of each place, a column of indices, in C order over axes of lengths into
    out; -1 for a place with an index that an axis does not have.
    """
    launch(plan_flat_places(indices, out, lengths))


def plan_flat_places(indices: Any, out: Any, lengths: tuple[int, ...]) -> list[Launch]:
    """Return the launch; none without places.

    Note    both lie without gaps
    """
    if not out.size:
        return []
    fields = int64_fields(out.size, 1, out.size, len(lengths), *(lengths or (1,)))
    source = source_of(out.dtype, max(len(lengths), 1))
    return [Launch(source, "flat_places", (-(-out.size // THREADS), 1), (indices, out, fields))]


def add_entries(values: Any, indices: Any, out: Any) -> None:
    """Add each of the values at its place, a column of indices, into out; no place comes twice.

    A place that out does not have is passed over.
    """
    launch(plan_add_entries(values, indices, out))


def plan_add_entries(values: Any, indices: Any, out: Any) -> list[Launch]:
    """Return the launch; none if there are no values.

    Note    all arrays are gapless
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
    """Return the text for elements of a dtype and a number of axes of places."""
    real = computing_type(dtype)
    return f"""{headers_for([dtype])}
typedef {C_TYPES[dtype]} Stored;
typedef {real} Real;
constexpr int AXES = {axes};
constexpr bool IS_WHOLE = {str(is_whole(dtype)).lower()};
{text_of("headers/poison.cuh", "sparse/coordinates.cu")}"""
