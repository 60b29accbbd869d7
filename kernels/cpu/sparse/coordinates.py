"""Sums of entries of sparse tensors, on the CPU."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ..index.indices import INSIDE, OutOfBounds, ends, own_copy, refuse
from ..jit.background import is_numpys_turn
from ..jit.kernel_cache import Loops
from ..nn.segment_sums import sums_between
from ..silence import silent

Array = np.ndarray[Any, Any]
_loops = Loops("sparse.coordinate_loops")
# The number of values that NumPy computes at a time in a sum.
_PIECE: Final = 1 << 18


def _compile_adding(values: Any, out: Any) -> None:
    _loops.add_rows(np.zeros((1, 1), values), np.zeros(1, np.int64), np.zeros((1, 1), out))


def _compile_gathering(dtype: Any) -> None:
    one, place = np.zeros((1, 1), dtype), np.zeros(1, np.int64)
    _loops.gather_add(one, np.zeros(2, np.int64), place, one[0], False, one.copy())


def _refuse(index: int, length: int, axis: int) -> None:
    """Raise the error of sparse_coo_tensor for an index that is out of bounds for a length."""
    if index < 0:
        raise OutOfBounds(f"found negative index {index} for dim {axis}")
    raise OutOfBounds(
        f"size is inconsistent with indices: for dim {axis}, size is {length} but found index "
        f"{index}"
    )


def _require_inside(row: Array, length: int, axis: int) -> None:
    """Raise IndexError if a contiguous row has an index that is out of bounds for the length."""
    # As an unsigned integer, a negative number is larger than all others.
    if row.size and int(np.maximum.reduce(row.view(np.uint64))) >= length:
        low, high = ends(row)
        _refuse(low if low < 0 else high, length, axis)


def _own_row(row: Array, length: int, axis: int) -> Array:
    """Return a private copy of a row of indices: see Note [Indices that change] in bounds.py.

    Raises  IndexError for an index that is out of bounds for the length
    """
    own = row.copy()
    _require_inside(own, length, axis)
    return own


@silent
def flat_places(indices: Array, out: Array, lengths: tuple[int, ...]) -> None:
    """Write the flat index of each column of indices, in C order over axes of these lengths, into
    out.

    Raises  IndexError for an index that is out of bounds
    """
    if not lengths:
        out.fill(0)
        return
    np.copyto(out, indices[0])
    _require_inside(out, lengths[0], 0)
    for axis, length in enumerate(lengths[1:], 1):
        np.multiply(out, length, out)
        np.add(out, _own_row(indices[axis], length, axis), out)


@silent
def add_entries(values: Array, indices: Array, out: Array) -> None:
    """Add each value to out at the position given by the value's column of indices, in order.

    Memory bandwidth limits the speed; only the touched rows are read and written.

    Raises  IndexError for an index that is out of bounds
    """
    if not values.size:
        return
    axes = indices.shape[0]
    if not axes:
        np.add(out, values.sum(0, out.dtype), out)
        return
    # Compiled loops do not support half types, bool, and memory that is not contiguous.
    by_numpy = not out.flags.c_contiguous or out.dtype.itemsize < 4
    if by_numpy or is_numpys_turn(_compile_adding, values.dtype, out.dtype):
        own = [_own_row(indices[axis], out.shape[axis], axis) for axis in range(axes)]
        np.add.at(out, tuple(own), values)
        return
    rows = np.ascontiguousarray(indices[0])
    if axes > 1:
        rows = np.empty(indices.shape[1], np.int64)
        flat_places(indices, rows, out.shape[:axes])
    width = values[0].size
    given = np.ascontiguousarray(values).reshape(-1, width)
    found = _loops.add_rows(given, rows, out.reshape(-1, width))
    if found != INSIDE or not out.shape[0]:
        _refuse(found, out.shape[0], 0)


@silent
def _gather_by_numpy(
    x: Array, starts: Array, places: Array, weights: Array | None, out: Array
) -> None:
    starts, places = own_copy(starts, len(places) + 1, 0), own_copy(places, len(x), 0)
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
    """Write into row i of out the sum of the rows of x at places[starts[i]:starts[i + 1]],
    multiplied by their weights, if any. Each sum is added in the order of places.

    Raises  IndexError for a row that is out of bounds
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
        bounds, rows = np.ascontiguousarray(starts), np.ascontiguousarray(places)
        found, what = _loops.gather_add(read, bounds, rows, given, weights is not None, total)
        if what:
            refuse(found, len(read) if what == 2 else len(rows) + 1, 0)
    if total is not out:
        np.copyto(out, total, casting="unsafe")
