"""Steps of parameters by gradients of few rows, on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fastdist.core.dtypes import WIDE

from ..index.indices import INSIDE, refuse, require_inside
from ..jit.kernel_cache import Loops
from ..silence import silent

Array = np.ndarray[Any, Any]
_loops = Loops("sparse.touched_row_loops")


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
    _run(_loops.adagrad, values, places, order, [sums, out], [rate, eps])


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
    _run(_loops.sparse_adam, values, places, order, [mean, square, out], numbers)
