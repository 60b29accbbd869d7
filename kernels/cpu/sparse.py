"""Entries of sparse tensors added up, on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np

from .compiler import compiled
from .silence import silent

Array = np.ndarray[Any, Any]


@compiled()
def _add_rows(values: Any, rows: Any, out: Any) -> None:
    for k in range(len(rows)):
        row = rows[k]
        for i in range(out.shape[1]):
            out[row, i] += values[k, i]


@silent
def add_entries(values: Array, indices: Array, out: Array) -> None:
    """Add each of the values at its place, a column of indices, into out, in their order.

    Bound by memory, of the rows that are touched.
    """
    if not values.size:
        return
    axes = indices.shape[0]
    if not axes:
        np.add(out, values.sum(0, out.dtype), out)
        return
    # Half types and bool are not for compiled loops, and memory with gaps is walked by NumPy.
    if not out.flags.c_contiguous or out.dtype.itemsize < 4:
        np.add.at(out, tuple(indices), values)
        return
    rows = indices[0] if axes == 1 else np.ravel_multi_index(tuple(indices), out.shape[:axes])
    width = values[0].size
    given = np.ascontiguousarray(values).reshape(-1, width)
    _add_rows(given, np.ascontiguousarray(rows), out.reshape(-1, width))


@compiled()
def _gather_add(x: Any, starts: Any, places: Any, weights: Any, weighed: Any, out: Any) -> None:
    for i in range(out.shape[0]):
        out[i, :] = 0
        for k in range(starts[i], starts[i + 1]):
            row = x[places[k]]
            if weighed:
                for j in range(out.shape[1]):
                    out[i, j] += weights[k] * row[j]
            else:
                for j in range(out.shape[1]):
                    out[i, j] += row[j]


@silent
def gather_add(x: Array, starts: Array, places: Array, weights: Array | None, out: Array) -> None:
    """Write into row i of out the sum of the rows of x at places[starts[i]:starts[i + 1]], each
    times its weight, if there are weights. Each sum is added in the order of its places.
    """
    if not out.size:
        return
    wide: Any = np.int64 if out.dtype == np.bool_ else out.dtype
    read = np.ascontiguousarray(x, wide)
    total = out if out.dtype == wide and out.flags.c_contiguous else np.empty(out.shape, wide)
    given = np.empty(0, wide) if weights is None else np.ascontiguousarray(weights, wide)
    _gather_add(
        read,
        np.ascontiguousarray(starts),
        np.ascontiguousarray(places),
        given,
        weights is not None,
        total,
    )
    if total is not out:
        np.copyto(out, total, casting="unsafe")
