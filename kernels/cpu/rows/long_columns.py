"""Sums of many numbers over leading or middle axes; see long_rows for the last axes.

NumPy adds float32 row by row to one row of results. The compiled loop adds the rows of a band in
float32, several rows at a time, and adds the sums of the bands in float64. For few columns, matrix
products with a vector of ones are faster.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from ..silence import silent
from ..small.call_facts import LIMIT, Array, CallFacts, Run, adder_along, number
from .long_rows import result_by

# With fewer columns than this, most of a block would be empty.
_FEWEST: Final = 64
# If there are fewer than _SOME columns, of more than _MOST numbers each, NumPy sums the columns by
# folding: matrix products of so few columns are mostly call overhead.
_MOST, _SOME = 1 << 14, 12
# If few columns have at least _LONG numbers in total, several rows are treated as one row of about
# _WIDE columns: the sum of 10,000 x 10 takes 4 us instead of 18 (AMD EPYC, Zen 4).
_LONG, _WIDE = 1 << 16, 128
# This many bytes fit a core's L2 cache: see Note [Parts of the rows] in column_code.py.
_NEAR_BYTES: Final = 3 << 18


def sum(facts: CallFacts, *, is_mean: bool = False) -> Run | None:
    """Return a function for the sum or mean over adjacent axes that do not include the last one."""
    shape, axes = facts.shapes[0], facts.numbers[0]
    if not shape or not axes or not facts.contiguous[0] or not facts.one_dtype:
        return None
    first, behind = axes[0], axes[0] + len(axes)
    if tuple(axes) != tuple(range(first, behind)) or math.prod(shape) <= LIMIT:
        return None
    before, rows, n = (
        math.prod(part) for part in (shape[:first], shape[first:behind], shape[behind:])
    )
    final = facts.shape if facts.view_shape is None else facts.view_shape
    if before == 1 and 1 < n < _FEWEST and rows * n >= _LONG:
        usual = -(-_WIDE // n)
        together = next((k for k in range(usual // 2, 2 * usual) if k and rows % k == 0), usual)
        return _side_by_side(rows, n, together, facts.dtype, final, is_mean=is_mean)
    if 1 < n < _FEWEST and rows > 1 and (rows <= _MOST or n >= _SOME):
        return _few(before, rows, n, facts.dtype, final, is_mean=is_mean)
    if n < _FEWEST or (before > 1 and rows < _FEWEST):
        return None
    scale = 1.0 / rows if is_mean else 1.0
    near = rows * n * int(facts.dtype.itemsize) <= _NEAR_BYTES
    name = "sum_of_near_columns" if near else "sum_of_columns"
    if before == 1:
        return result_by(name, final, facts.dtype, rows, n, scale)
    one, empty, whole = (
        result_by(name, (n,), facts.dtype, rows, n, scale),
        np.empty,
        (before, rows, n),
    )

    def each(x: Array) -> Array:
        out = empty((before, n), facts.dtype)
        for i, part in enumerate(x.reshape(whole)):
            out[i] = one(part)
        return out.reshape(final)

    return each


@silent
def _side_by_side(
    rows: int, n: int, together: int, dtype: Any, final: tuple[int, ...], *, is_mean: bool
) -> Run:
    """Return a function for the sum of few columns. The loop over columns runs on long rows, which
    are made of `together` rows each. The `together` parts of the result are then added.
    """
    wide = together * n
    near = rows * n * int(dtype.itemsize) <= _NEAR_BYTES
    name = "sum_of_near_columns" if near else "sum_of_columns"
    scale = 1.0 / rows if is_mean else 1.0
    add = result_by(name, (together, n), dtype, rows // together, wide, scale)
    reduce, seen, whole = np.add.reduce, (rows, n), rows - rows % together
    if whole == rows:
        return lambda x: reduce(add(x), 0).reshape(final)
    multiply, add_to, part = np.multiply, np.add, number(scale, dtype)

    def added(x: Array) -> Array:
        x = x.reshape(seen)
        total, rest = reduce(add(x[:whole]), 0), reduce(x[whole:], 0)
        return add_to(total, multiply(rest, part, rest), total).reshape(final)

    return added


@silent
def _few(
    before: int, rows: int, n: int, dtype: Any, final: tuple[int, ...], *, is_mean: bool
) -> Run:
    add, count, divide = adder_along(before, rows, n, dtype), number(rows, dtype), np.divide
    if not is_mean:
        return lambda x: add(x).reshape(final)

    def mean(x: Array) -> Array:
        out = add(x)
        return divide(out, count, out).reshape(final)

    return mean
