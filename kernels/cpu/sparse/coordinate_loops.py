"""The loops of coordinates.py, compiled: see Note [Indices that change] in bounds.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..index.bounds import outside
from ..index.indices import INSIDE
from ..jit.compiler import compiled


@compiled("sums of sparse tensors")
def add_rows(values: Any, rows: Any, into: Any) -> Any:
    for k in range(len(rows)):
        row = np.uint64(rows[k])
        if row >= np.uint64(len(into)):
            return outside(row)
        for i in range(into.shape[1]):
            into[row, i] += values[k, i]
    return INSIDE


@compiled("products of sparse tensors")
def gather_add(x: Any, starts: Any, places: Any, weights: Any, weighed: Any, into: Any) -> Any:
    """Write the sums into `into`, and return INSIDE and 0. If a number is out of bounds, return
    this number, and 1 for a number of `starts` or 2 for a number of `places`.
    """
    count = np.uint64(min(len(places), len(weights)) if weighed else len(places))
    first = starts[0]
    if np.uint64(first) > count:
        return outside(np.uint64(first)), 1
    for i in range(into.shape[0]):
        into[i, :] = 0
        end = starts[i + 1]
        if np.uint64(end) > count:
            return outside(np.uint64(end)), 1
        for k in range(first, end):
            place = np.uint64(places[k])
            if place >= np.uint64(len(x)):
                return outside(place), 2
            row = x[place]
            if weighed:
                for j in range(into.shape[1]):
                    into[i, j] += weights[k] * row[j]
            else:
                for j in range(into.shape[1]):
                    into[i, j] += row[j]
        first = end
    return INSIDE, 0
