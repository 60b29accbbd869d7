"""Arithmetic sequences (arange, linspace) on CUDA arrays.

Thread  any; queued on the current stream of out's device
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from fastdist.core.linspace import ends_and_step

from ..launch import (
    C_TYPES,
    THREADS,
    Launch,
    headers_for,
    int64_fields,
    is_real,
    is_whole,
    launch,
    text_of,
)


def arange(out: Any, start: float, step: float) -> None:
    """Write start, start + step, ... into out, a vector in C order. The numbers are computed in
    float64 if out's dtype is floating, else in int64.
    """
    launch(plan_arange(out, start, step))


def plan_arange(out: Any, start: float, step: float) -> list[Launch]:
    """Return the launch of arange; no launch if out is empty."""
    if not out.size:
        return []
    source, grid = source_of_ranges(out.dtype), (-(-out.size // THREADS), 1)
    if is_real(out.dtype):
        numbers = (np.float64(start), np.float64(step), int64_fields(out.size, 0, 0))
        return [Launch(source, "real", grid, (out, *numbers))]
    return [Launch(source, "whole", grid, (out, int64_fields(out.size, int(start), int(step))))]


def evenly(out: Any, start: Any, end: Any) -> None:
    """Write evenly spaced numbers from start to end into out, with the CPU's bits. start and end
    are NumPy scalars of one dtype; out is a vector in C order.
    """
    launch(plan_evenly(out, start, end))


def plan_evenly(out: Any, start: Any, end: Any) -> list[Launch]:
    """Return the launch of evenly; no launch if out is empty."""
    if not out.size:
        return []
    first, last, step = ends_and_step(start, start if out.size == 1 else end, out.size)
    wide = np.float32 if first.dtype in (np.float16, np.float32) else np.float64
    numbers = (wide(first), wide(last), wide(step), int64_fields(out.size, 0, 0))
    grid = (-(-out.size // THREADS), 1)
    return [Launch(source_of_ranges(out.dtype), "evenly", grid, (out, *numbers))]


@functools.lru_cache(maxsize=64)
def source_of_ranges(dtype: np.dtype[Any]) -> str:
    """Return the CUDA source for elements of a dtype."""
    return f"""{headers_for([dtype])}
typedef {C_TYPES[dtype]} Stored;
typedef {C_TYPES[dtype] if dtype.kind == "f" else "double"} Held;
typedef {"float" if dtype in (np.float16, np.float32) else "double"} Wide;
constexpr bool IS_WHOLE = {str(is_whole(dtype)).lower()};
{text_of("create/ranges.cu")}"""
