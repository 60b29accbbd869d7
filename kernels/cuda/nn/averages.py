"""Averages of windows along rows, and their adjoint (avg_pool), on CUDA arrays.

`window` and `whole` have the same meaning as in the CPU module.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ..launch import (
    C_TYPES,
    THREADS,
    Launch,
    adding_type,
    headers_for,
    int64_fields,
    launch,
    text_of,
)
from ..planes import planes_of

Window = tuple[int, int, int]


def average(x: Any, out: Any, window: Window, whole: bool) -> None:
    """Write the averages of windows along the last axis of x into out. Averages of integers are
    truncated; float16 elements are added in float32.
    """
    lengths = x.shape[-1], out.shape[-1]
    launch(plan_averages("average", x, out, lengths, window, whole))


def spread(x: Any, out: Any, window: Window, whole: bool) -> None:
    """Write the adjoint of average into out: each element of x, divided by the divisor of its
    window, is added to all positions of that window.
    """
    lengths = out.shape[-1], x.shape[-1]
    launch(plan_averages("spread", x, out, lengths, window, whole))


def plan_averages(
    name: str, x: Any, out: Any, lengths: tuple[int, int], window: Window, whole: bool
) -> list[Launch]:
    """Return the launch of average or spread; no launch if out is empty. `lengths` are the length
    of a row and its number of windows.
    """
    if not out.size:
        return []
    planes = planes_of((x, out), 1)
    fields = (
        *(out.size, *lengths, *window, whole),
        *[steps[-1] for steps in planes.steps],
        *planes.walk.shape,
        *[step for steps in planes.walk.strides for step in steps],
    )
    source = source_of_averages(x.dtype, len(planes.walk.shape), wide=out.size >= 2**32)
    return [Launch(source, name, (-(-out.size // THREADS), 1), (x, out, int64_fields(*fields)))]


@functools.lru_cache(maxsize=256)
def source_of_averages(dtype: np.dtype[Any], kept: int = 1, *, wide: bool = False) -> str:
    """Return the CUDA source for the dtype of x and out, and for a number of merged axes."""
    return f"""{headers_for([dtype])}
typedef {C_TYPES[dtype]} Stored;
typedef {adding_type(dtype)} Real;
typedef {"unsigned long long" if wide else "unsigned int"} Index;
constexpr int KEPT = {kept};
{text_of("nn/averages.cu")}"""
