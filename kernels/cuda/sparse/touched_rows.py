"""Optimizer steps of parameters whose gradients have few rows, on CUDA arrays."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ..launch import (
    C_TYPES,
    THREADS,
    Launch,
    computing_type,
    headers_for,
    int64_fields,
    launch,
    text_of,
)


def adagrad(
    values: Any, places: Any, order: Any, sums: Any, out: Any, rate: float, eps: float
) -> None:
    """Update rows of out, the parameter, as Adagrad does. Add the squared gradients to the same
    rows of sums.

    values: (n, width); places: (n,), ascending, the row of out for each of values[order]; sums and
    out: (rows, width); all in C order. A row that is out of bounds is skipped.
    """
    launch(plan("adagrad", values, places, order, [sums, out], [rate, eps]))


def sparse_adam(
    values: Any,
    places: Any,
    order: Any,
    mean: Any,
    square: Any,
    out: Any,
    rate: float,
    keep: float,
    keep_square: float,
    eps: float,
) -> None:
    """Update rows of out, the parameter, as Adam does, and the running means of these rows.

    Arrays as for adagrad; `keep` and `keep_square` are the decay factors of the means.
    """
    numbers = [rate, keep, keep_square, eps]
    launch(plan("sparse_adam", values, places, order, [mean, square, out], numbers))


def plan(
    name: str, values: Any, places: Any, order: Any, rows: list[Any], numbers: list[float]
) -> list[Launch]:
    """Return the launch of a step; no launch if no row is touched."""
    if not values.size:
        return []
    task = int64_fields(values.size, values.shape[1], values.shape[0], rows[0].shape[0])
    arguments = (values, places, order, *rows, *map(np.float64, numbers), task)
    grid = (-(-values.size // THREADS), 1)
    return [Launch(source_of(values.dtype), name, grid, arguments)]


@functools.lru_cache(maxsize=256)
def source_of(dtype: np.dtype[Any]) -> str:
    """Return the CUDA source for elements of a dtype."""
    real = computing_type(dtype)
    return f"""{headers_for([dtype])}
typedef {C_TYPES[dtype]} Stored;
typedef {real} Real;
{text_of("sparse/touched_rows.cu")}"""
