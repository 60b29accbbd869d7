"""Copies of few numbers: as they are, in another dtype, or those that an index names."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fastdist.core.dtypes import FLOAT8

from .call_facts import LIMIT, CallFacts, Run, row_starts, small


@small("shape.copying.cast")
def _cast(facts: CallFacts) -> Run | None:
    shape = facts.shapes[0]
    if not shape or math.prod(shape) > LIMIT:
        return None
    dtype = facts.dtype
    if dtype == facts.dtypes[0]:
        return np.ndarray.copy
    if dtype in FLOAT8 or facts.dtypes[0] in FLOAT8:
        return None
    return lambda x: x.astype(dtype, "C")


def _require_inside(index: Any, length: int, axis: int) -> None:
    # A quarter of the time of min and max, which go through Python.
    low, high = index.item(index.argmin()), index.item(index.argmax())
    if low < 0 or high >= length:
        worst = low if low < 0 else high
        raise IndexError(f"index {worst} is out of bounds for dimension {axis} with size {length}")


@small("index.indexing.select")
def _select(facts: CallFacts) -> Run | None:
    shape, (axis,) = facts.shapes[0], facts.numbers
    if not shape or not shape[axis] or 0 in facts.shape or math.prod(facts.shape) > LIMIT:
        return None
    length = shape[axis]

    def select(x: Any, index: Any) -> Any:
        _require_inside(index, length, axis)
        return x.take(index, axis)

    return select


@small("index.indexing.gather")
def _gather(facts: CallFacts) -> Run | None:
    shape, wanted, (axis,) = facts.shapes[0], facts.shape, facts.numbers
    if not facts.small or shape is None or len(shape) != 2 or axis != 1 or 0 in wanted:
        return None
    starts, add, length = row_starts(*shape)[: wanted[0], None], np.add, shape[1]

    def gather(x: Any, index: Any) -> Any:
        _require_inside(index, length, 1)
        return x.ravel()[add(index, starts).ravel()].reshape(wanted)

    return gather
