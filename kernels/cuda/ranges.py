"""Numbers in a row, made on CUDA arrays.

Thread  any; queued on the current stream of out's device
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from .launch import C_TYPES, THREADS, Launch, headers_for, int64_fields, is_real, launch, text_of


def arange(out: Any, start: float, step: float) -> None:
    """Write start, start + step, ... into out, a vector in C order: counted in float64 if its dtype
    is floating, else in int64.
    """
    launch(plan_arange(out, start, step))


def plan_arange(out: Any, start: float, step: float) -> list[Launch]:
    """Return the launch of arange; none if out is empty."""
    if not out.size:
        return []
    source, grid = source_of_ranges(out.dtype), (-(-out.size // THREADS), 1)
    if is_real(out.dtype):
        numbers = (np.float64(start), np.float64(step), int64_fields(out.size, 0, 0))
        return [Launch(source, "real", grid, (out, *numbers))]
    return [Launch(source, "whole", grid, (out, int64_fields(out.size, int(start), int(step))))]


@functools.lru_cache(maxsize=64)
def source_of_ranges(dtype: np.dtype[Any]) -> str:
    """Return the text for elements of a dtype."""
    return f"""{headers_for([dtype])}
typedef {C_TYPES[dtype]} Stored;
{text_of("ranges.cu")}"""
