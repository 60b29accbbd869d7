"""Entries of sparse tensors added up, on CUDA arrays."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from .launch import (
    C_TYPES,
    THREADS,
    Launch,
    computing_type,
    headers_for,
    int64_fields,
    launch,
    text_of,
)


def gather_add(x: Any, starts: Any, places: Any, weights: Any, out: Any) -> None:
    """Write into row i of out the sum of the rows of x at places[starts[i]:starts[i + 1]], each
    times its weight, if there are weights.
    """
    launch(plan_gather_add(x, starts, places, weights, out))


def plan_gather_add(x: Any, starts: Any, places: Any, weights: Any, out: Any) -> list[Launch]:
    """Return the launch; none if nothing is to be written.

    Note    all but x lie without gaps
    """
    if not out.size:
        return []
    steps = [step // x.dtype.itemsize for step in x.strides]
    fields = int64_fields(out.size, out.shape[1], *steps, weights is not None)
    grid = (-(-out.size // THREADS), 1)
    given = out if weights is None else weights  # an address of the right type, not read
    arguments = (x, starts, places, given, out, fields)
    return [Launch(source_of(out.dtype), "gather_add", grid, arguments)]


def add_entries(values: Any, indices: Any, out: Any) -> None:
    """Add each of the values at its place, a column of indices, into out; no place comes twice."""
    launch(plan_add_entries(values, indices, out))


def plan_add_entries(values: Any, indices: Any, out: Any) -> list[Launch]:
    """Return the launch; none if nothing is to be added.

    Note    all lie without gaps
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
{text_of("sparse.cu")}"""
