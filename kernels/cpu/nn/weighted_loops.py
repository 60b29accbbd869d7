"""The loop of weighted_neighbours.py, compiled."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..index.bounds import copy_inside
from ..index.indices import INSIDE
from ..jit.compiler import compiled


@compiled(alone=False)
def _add_row(row: Any, weight: Any, total: Any) -> None:
    for i in range(len(total)):
        total[i] += weight * row[i]


@compiled(alone=False)
def _along(row: Any, starts: Any, places: Any, weights: Any, even: Any, into: Any) -> None:
    """Compute the sums along a row. `even` is the number of taps of each output, or 0 if outputs
    have different numbers of taps.
    """
    if even == 1:
        for i in range(len(into)):
            into[i] = weights[i] * row[places[i]]
    elif even == 2:
        for i in range(len(into)):
            into[i] = (
                weights[2 * i] * row[places[2 * i]] + weights[2 * i + 1] * row[places[2 * i + 1]]
            )
    else:
        for i in range(len(into)):
            total = into.dtype.type(0)
            for k in range(starts[i], starts[i + 1]):
                total += weights[k] * row[places[k]]
            into[i] = total


@compiled("interpolate and adaptive pooling")
def weigh(x: Any, into: Any, deep: Any, high: Any, wide: Any, even: Any) -> Any:
    """Write the weighted sums into `into`, and return INSIDE and 0. If a number of a table is out
    of bounds, return this number and the table's axis.

    Tables are copied, and only the copies are used: see Note [Indices that change] in bounds.py.
    """
    total = np.empty(x.shape[3], into.dtype)
    starts_d, starts_h, starts_w = (
        np.empty(len(deep[0]), np.int64),
        np.empty(len(high[0]), np.int64),
        np.empty(len(wide[0]), np.int64),
    )
    places_d, places_h, places_w = (
        np.empty(len(deep[1]), np.int64),
        np.empty(len(high[1]), np.int64),
        np.empty(len(wide[1]), np.int64),
    )
    if even * into.shape[3] > len(places_w):
        return even, 3
    for axis, starts, own_starts, places, own_places in (
        (1, deep[0], starts_d, deep[1], places_d),
        (2, high[0], starts_h, high[1], places_h),
        (3, wide[0], starts_w, wide[1], places_w),
    ):
        found = copy_inside(starts, len(places) + 1, own_starts)
        if found != INSIDE:
            return found, axis
        found = copy_inside(places, x.shape[axis], own_places)
        if found != INSIDE:
            return found, axis
    for p in range(x.shape[0]):
        for od in range(into.shape[1]):
            for oh in range(into.shape[2]):
                total[:] = 0
                for i in range(starts_d[od], starts_d[od + 1]):
                    for j in range(starts_h[oh], starts_h[oh + 1]):
                        row = x[p, places_d[i], places_h[j]]
                        _add_row(row, deep[2][i] * high[2][j], total)
                _along(total, starts_w, places_w, wide[2], even, into[p, od, oh])
    return INSIDE, 0
