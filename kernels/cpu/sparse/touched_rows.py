"""Steps of parameters by gradients of few rows, on the CPU."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fastdist.core.dtypes import WIDE

from ..index.bounds import outside
from ..index.indices import INSIDE, refuse, require_inside
from ..jit.compiler import compiled
from ..silence import silent

Array = np.ndarray[Any, Any]


def _run(
    loop: Callable[..., int],
    values: Array,
    places: Array,
    order: Array,
    rows: list[Array],
    numbers: list[float],
) -> None:
    """Run a loop over rows of arrays with numbers of their dtype.

    Raises  OutOfBounds for a place that they do not have
    """
    dtype, count = rows[0].dtype, len(rows[0])
    if dtype not in WIDE:
        found = loop(values, places, order, *rows, *[dtype.type(number) for number in numbers])
        if found != INSIDE or (len(places) and not count):
            refuse(found, count, 0)
        return
    # Half types are not for compiled loops: a copy of the rows that are touched is.
    touched, number = np.unique(places, return_inverse=True)
    require_inside(touched, count, 0)
    to = WIDE[dtype]
    wide = [np.ascontiguousarray(one[touched], to) for one in rows]
    given = np.ascontiguousarray(values, to)
    found = loop(given, number.reshape(-1), order, *wide, *[to.type(one) for one in numbers])
    if found != INSIDE:
        refuse(found, count, 0)
    for one, copy in zip(rows, wide, strict=True):
        one[touched] = copy


@compiled("sums of sparse gradients")
def _add_up(values: Any, places: Any, order: Any, k: Any, row: Any, total: Any) -> Any:
    """Write the sum of the values of a row, the first of which is number k, into total; return the
    number of the next row's first, or -1 if order names a value that there is not.
    """
    total[:] = 0
    while True:
        at = np.uint64(order[k])
        if at >= np.uint64(len(values)):
            return -1
        total += values[at]
        k += 1
        if k == len(places) or np.uint64(places[k]) != row:
            return k


@compiled("Adagrad with sparse gradients")
def _adagrad(values: Any, places: Any, order: Any, sums: Any, out: Any, rate: Any, eps: Any) -> Any:
    total = np.empty_like(out[:1])[0]
    k = 0
    while k < len(places):
        row = np.uint64(places[k])
        if row >= np.uint64(len(out)):
            return outside(row)
        k = _add_up(values, places, order, k, row, total)
        if k < 0:
            return -1
        for j in range(len(total)):
            g = total[j]
            sums[row, j] += g * g
            out[row, j] -= rate * g / (math.sqrt(sums[row, j]) + eps)
    return INSIDE


@silent
def adagrad(
    values: Array,
    places: Array,
    order: Array,
    sums: Array,
    out: Array,
    rate: float,
    eps: float,
) -> None:
    """Step rows of out, the parameter, as Adagrad does, and add to its sums of squares.

    values: (n, width); places: (n,), the row of each of values[order], rising; sums and out: (rows,
    width), C order. Bound by memory: each row that is touched is read and written once, after the
    values of one row have been added up.
    """
    _run(_adagrad, values, places, order, [sums, out], [rate, eps])


@compiled("SparseAdam")
def _sparse_adam(
    values: Any, places: Any, order: Any, mean: Any, square: Any, out: Any,
    rate: Any, keep: Any, keep_square: Any, eps: Any,
) -> Any:  # fmt: skip
    total = np.empty_like(out[:1])[0]
    one = np.ones_like(out[:1, :1])[0, 0]
    k = 0
    while k < len(places):
        row = np.uint64(places[k])
        if row >= np.uint64(len(out)):
            return outside(row)
        k = _add_up(values, places, order, k, row, total)
        if k < 0:
            return -1
        for j in range(len(total)):
            g = total[j]
            mean[row, j] += (g - mean[row, j]) * (one - keep)
            square[row, j] += (g * g - square[row, j]) * (one - keep_square)
            out[row, j] -= rate * mean[row, j] / (math.sqrt(square[row, j]) + eps)
    return INSIDE


@silent
def sparse_adam(
    values: Array,
    places: Array,
    order: Array,
    mean: Array,
    square: Array,
    out: Array,
    rate: float,
    keep: float,
    keep_square: float,
    eps: float,
) -> None:
    """Step rows of out, the parameter, as Adam does, and move the means of these rows.

    Arrays as adagrad's; keep and keep_square are what stays of the means.
    """
    numbers = [rate, keep, keep_square, eps]
    _run(_sparse_adam, values, places, order, [mean, square, out], numbers)
