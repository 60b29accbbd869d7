"""Optimizer steps of parameters whose gradients have few rows, on the CPU."""

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
    """Run a loop over rows of arrays, with numbers converted to the arrays' dtype.

    Raises  OutOfBounds for a row that is out of bounds
    """
    dtype, count = rows[0].dtype, len(rows[0])
    if dtype not in WIDE:
        found = loop(values, places, order, *rows, *[dtype.type(number) for number in numbers])
        if found != INSIDE or (len(places) and not count):
            refuse(found, count, 0)
        return
    # Compiled loops do not take half types: they get a float32 copy of the touched rows.
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
    """Update rows of out, the parameter, as Adagrad does, and add to `sums`, the sums of squares.

    values: (n, width); places: (n,), the row of each of values[order], ascending; sums and out:
    (rows, width), C order. Memory bandwidth limits the speed: after a row's values are summed, the
    row is read and written once.
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
    """Update rows of out, the parameter, as Adam does, and the running means of these rows.

    Arrays as for adagrad; `keep` and `keep_square` are the decay factors of the means.
    """
    numbers = [rate, keep, keep_square, eps]
    _run(_loops.sparse_adam, values, places, order, [mean, square, out], numbers)
