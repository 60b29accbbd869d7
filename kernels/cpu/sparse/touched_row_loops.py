"""The loops of touched_rows, compiled."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..index.bounds import outside
from ..index.indices import INSIDE
from ..jit.compiler import compiled


@compiled("sums of sparse gradients")
def _add_up(values: Any, places: Any, order: Any, k: Any, row: Any, total: Any) -> Any:
    """Write the sum of a row's values, from position k of `order` on, into total. Return the
    position of the next row's first value, or -1 if order has an index that is out of bounds.
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
def adagrad(values: Any, places: Any, order: Any, sums: Any, out: Any, rate: Any, eps: Any) -> Any:
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


@compiled("SparseAdam")
def sparse_adam(
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
