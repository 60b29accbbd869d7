"""Weighted sums of neighboring elements along one to three axes, on CUDA arrays."""

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
from ..planes import planes_of
from ..prepared import only_launches


@only_launches
def weigh(x: Any, table: Any, weights: Any, out: Any, taps: tuple[int, ...]) -> None:
    """Write the weighted sums along the last len(taps) axes into out. float16 is added in
    float32.
    """
    launch(plan_weigh(x, table, weights, out, taps))


def plan_weigh(x: Any, table: Any, weights: Any, out: Any, taps: tuple[int, ...]) -> list[Launch]:
    """Return the launch of weigh; no launch if out is empty.

    Note    table and weights are contiguous, and have the same values as for the CPU kernel: for
            each of the three axes that x lacks, they begin with one position of weight 1
    """
    if not out.size:
        return []
    planes = planes_of((x, out), len(taps))
    starts, places, at_weights = [], [], []
    at = weight = 0
    for length, count in zip(planes.lengths[1], (1,) * (3 - len(taps)) + taps, strict=True):
        starts.append(at)
        places.append(at + length + 1)
        at_weights.append(weight)
        at, weight = at + length + 1 + count, weight + count
    fields = (
        *(out.size, *planes.lengths[1], *starts, *places, *at_weights),
        *[step for steps in planes.steps for step in steps],
        *planes.walk.shape,
        *[step for steps in planes.walk.strides for step in steps],
    )
    source = source_of_weigh(x.dtype, len(planes.walk.shape), wide=out.size >= 2**32)
    grid = (-(-out.size // THREADS), 1)
    return [Launch(source, "weigh", grid, (x, table, weights, out, int64_fields(*fields)))]


@functools.lru_cache(maxsize=256)
def source_of_weigh(dtype: np.dtype[Any], kept: int = 1, *, wide: bool = False) -> str:
    """Return the CUDA source for the dtype of x and out, and a number of merged plane axes."""
    real = computing_type(dtype)
    return f"""{headers_for([dtype])}
typedef {C_TYPES[dtype]} Stored;
typedef {real} Real;
typedef {real} Weight;
typedef {"unsigned long long" if wide else "unsigned int"} Index;
constexpr int KEPT = {kept};
{text_of("nn/weighted_neighbours.cu")}"""
