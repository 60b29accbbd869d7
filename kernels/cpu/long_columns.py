"""Sums of many numbers over the first axes, by a compiled loop; see long_rows for the last ones.

NumPy adds float32 row by row into a row of results; the loop adds a band of rows in float32 where
it stays in the nearest cache, and bands in float64.
"""

from __future__ import annotations

import math
from typing import Final

from .long_rows import result_by
from .small import LIMIT, Facts, Run

# Of fewer columns a strip would be mostly empty.
_FEWEST: Final = 64


def sum(facts: Facts, *, is_mean: bool = False) -> Run | None:
    """Return the sum, or the mean, over the first axes."""
    shape, axes = facts.shapes[0], facts.numbers[0]
    if not shape or not axes or not facts.contiguous[0] or not facts.one_dtype:
        return None
    rows, n = math.prod(shape[: len(axes)]), math.prod(shape[len(axes) :])
    if tuple(axes) != tuple(range(len(axes))) or rows * n <= LIMIT or n < _FEWEST:
        return None
    final = facts.shape if facts.seen_as is None else facts.seen_as
    scale = 1.0 / rows if is_mean else 1.0
    return result_by("sum_of_columns", final, facts.dtype, rows, n, scale)
