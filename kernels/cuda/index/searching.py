"""searchsorted and nonzero on CUDA arrays.

Thread  any; queued on the current stream of out's device
"""

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
from ..prepared import only_launches


@only_launches
def sorted_places(x: Any, rows: Any, out: Any, right: bool) -> None:
    """Write into out the position at which each element of x would be inserted in its sorted row:
    before equal numbers or, with right, after them.

    Shapes: x and out (..., m); rows (..., n), or (n,) if all of x share one row. All arrays are in
    C order, and x and rows have one dtype. NaN sorts after all numbers.
    """
    launch(plan_places(x, rows, out, right=right))


def plan_places(x: Any, rows: Any, out: Any, *, right: bool) -> list[Launch]:
    """Return the launch of sorted_places; no launch if x is empty."""
    each = x.shape[-1] if rows.ndim > 1 else 0
    task = int64_fields(x.size, rows.shape[-1], each)
    return _launch("place_right" if right else "place_left", x, (rows, out, task))


@only_launches
def hits(x: Any, upto: Any, out: Any) -> None:
    """Write into out, in order, the positions at which x is true. `upto` is the running count of
    true elements.

    x is bool (n,), upto is int64 (n,), and out has one element for each true element of x.
    """
    launch(_launch("hits", x, (upto, out, int64_fields(x.size, out.size, 0))))


def _launch(name: str, x: Any, more: tuple[Any, ...]) -> list[Launch]:
    if not x.size:
        return []
    return [Launch(source_of_searching(x.dtype), name, (-(-x.size // THREADS), 1), (x, *more))]


@functools.lru_cache(maxsize=64)
def source_of_searching(dtype: np.dtype[Any]) -> str:
    """Return the CUDA source for elements of a dtype."""
    return f"""{headers_for([dtype])}
typedef {C_TYPES[dtype]} Stored;
typedef {computing_type(dtype)} Real;
{text_of("index/searching.cu")}"""
