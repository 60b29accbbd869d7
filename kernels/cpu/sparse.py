"""Entries of sparse tensors added up, on the CPU."""

from __future__ import annotations

import functools
from typing import Any, Final

import numpy as np

from .background import is_numpys_turn
from .silence import silent
from .stretches import sums_between

Array = np.ndarray[Any, Any]
# Numbers that NumPy makes at a time of those that are added up.
_PIECE: Final = 1 << 18


@functools.cache
def _loops() -> Any:
    # Numba comes with these, on first use.
    from . import sparse_loops

    return sparse_loops


def _compile_adding(values: Any, out: Any) -> None:
    _loops().add_rows(np.zeros((1, 1), values), np.zeros(1, np.int64), np.zeros((1, 1), out))


def _compile_gathering(dtype: Any) -> None:
    one, place = np.zeros((1, 1), dtype), np.zeros(1, np.int64)
    _loops().gather_add(one, np.zeros(2, np.int64), place, one[0], False, one.copy())


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
    by_numpy = not out.flags.c_contiguous or out.dtype.itemsize < 4
    if by_numpy or is_numpys_turn(_compile_adding, values.dtype, out.dtype):
        np.add.at(out, tuple(indices), values)
        return
    rows = indices[0] if axes == 1 else np.ravel_multi_index(tuple(indices), out.shape[:axes])
    width = values[0].size
    given = np.ascontiguousarray(values).reshape(-1, width)
    _loops().add_rows(given, np.ascontiguousarray(rows), out.reshape(-1, width))


@silent
def _gather_by_numpy(
    x: Array, starts: Array, places: Array, weights: Array | None, out: Array
) -> None:
    most, row = max(_PIECE // out.shape[1], 1), 0
    while row < len(out):
        last = max(int(np.searchsorted(starts, starts[row] + most, "right")) - 1, row + 1)
        some = slice(starts[row], starts[last])
        parts = x[places[some]]
        if weights is not None:
            parts = parts * weights[some, None]
        bounds = starts[row : last + 1] - starts[row]
        out[row:last] = sums_between(parts, bounds[:-1], bounds[1:], 0)
        row = last


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
    if is_numpys_turn(_compile_gathering, wide):
        _gather_by_numpy(read, starts, places, None if weights is None else given, total)
    else:
        _loops().gather_add(
            read,
            np.ascontiguousarray(starts),
            np.ascontiguousarray(places),
            given,
            weights is not None,
            total,
        )
    if total is not out:
        np.copyto(out, total, casting="unsafe")
