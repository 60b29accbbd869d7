"""Sums of many numbers over the first axes, by a compiled loop; see long_rows for the last ones.

NumPy adds float32 row by row into a row of results; the loop adds a strip of columns in registers,
and what a band of rows comes to in float64.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from .long_rows import loop_of
from .silence import silent
from .small import LIMIT, Facts, Run

Array = np.ndarray[Any, Any]

# Of fewer columns a strip would be mostly empty.
_FEWEST: Final = 64


@silent
def sum(facts: Facts, *, is_mean: bool = False) -> Run | None:
    """Return the sum, or the mean, over the first axes."""
    shape, axes = facts.shapes[0], facts.numbers[0]
    if not shape or not axes or not facts.contiguous[0] or not facts.one_dtype:
        return None
    rows, n = math.prod(shape[: len(axes)]), math.prod(shape[len(axes) :])
    if tuple(axes) != tuple(range(len(axes))) or rows * n <= LIMIT or n < _FEWEST:
        return None
    run, zeros, divide = loop_of("sum_of_columns", facts.dtype), np.zeros, np.divide
    dtype, final = facts.dtype, facts.shape if facts.seen_as is None else facts.seen_as

    def reduce(x: Array) -> Array:
        total = zeros(n)
        run((x, total), rows, n)
        if is_mean:
            divide(total, rows, total)
        made = total.astype(dtype, copy=False)
        return made if final == made.shape else made.reshape(final)

    return reduce
