"""Reading and writing at places that tensors name, on the CPU.

Where several values go to one place, additions happen in the order in which the values lie, and of
plain writes the last one stays: the same result on each run.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fastdist.core.errors import ShapeError

from .silence import silent

Array = np.ndarray[Any, Any]
# One array, or None for "all of this axis", for each axis of what is indexed.
Places = tuple[Array | None, ...]
# From so many elements on rows are added by a compiled loop: 256 rows of 64 float32 take 33 us on
# one core, by np.add.at 280.
_MANY = 4096
_FLOATING = (np.dtype(np.float32), np.dtype(np.float64))


class OutOfBounds(ShapeError, IndexError):
    """A place that an axis does not have: an IndexError to Python, a RuntimeError to PyTorch."""


def _require_inside(index: Array, length: int, axis: int, lowest: int) -> None:
    if index.size and (index.min() < lowest or index.max() >= length):
        worst = int(index.min() if index.min() < lowest else index.max())
        raise OutOfBounds(f"index {worst} is out of bounds for dimension {axis} with size {length}")


def _grid(index: Array, axis: int) -> tuple[Array, ...]:
    """Return index along axis as a NumPy index over all axes."""
    return tuple(
        index if i == axis else np.arange(n).reshape((-1,) + (1,) * (index.ndim - 1 - i))
        for i, n in enumerate(index.shape)
    )


def _with_axes(*arrays: Array) -> list[Array]:
    """Return arrays, those without axes seen as vectors of one element."""
    return [array if array.ndim else array.reshape(1) for array in arrays]


@silent
def gather(x: Array, index: Array, out: Array, axis: int) -> None:
    """Write x's element at index along axis into out; index may be shorter than x elsewhere."""
    if not index.size:
        return
    x, index, out = _with_axes(x, index, out)
    _require_inside(index, x.shape[axis], axis, 0)
    np.copyto(out, x[_grid(index, axis)])


@silent
def scatter(x: Array, index: Array, src: Array, out: Array, axis: int) -> None:
    """Write x into out, and src at index along axis over it; src has index's axes or none."""
    np.copyto(out, x)
    if not index.size:
        return
    x, index, out = _with_axes(x, index, out)
    _require_inside(index, x.shape[axis], axis, 0)
    if src.ndim:
        src = src[tuple(slice(n) for n in index.shape)]
    out[_grid(index, axis)] = src


@silent
def scatter_add(x: Array, index: Array, src: Array, out: Array, axis: int) -> None:
    """Write x into out, and add src at index along axis."""
    np.copyto(out, x)
    if not index.size:
        return
    x, index, src, out = _with_axes(x, index, src, out)
    _require_inside(index, x.shape[axis], axis, 0)
    np.add.at(out, _grid(index, axis), src[tuple(slice(n) for n in index.shape)])


@silent
def scatter_zeros(x: Array, index: Array, out: Array, axis: int) -> None:
    """Write zeros into out, and add x at index along axis."""
    out.fill(0)
    if not index.size:
        return
    x, index, out = _with_axes(x, index, out)
    np.add.at(out, _grid(index, axis), x)


@silent
def select(x: Array, index: Array, out: Array, axis: int) -> None:
    """Write the slices of x at index along axis into out."""
    x, index, out = _with_axes(x, index, out)
    _require_inside(index, x.shape[axis], axis, 0)
    np.take(x, index, axis, out=out, mode="clip")


def _add_rows(out: Array, index: Array, src: Array) -> None:
    """Add the rows of src at index of out, one after the other as np.add.at does."""
    # Numba is loaded where there is much to do.
    from .row_loops import loop

    sums, rows = np.ascontiguousarray(out), np.ascontiguousarray(src)
    width = sums.size // len(sums)
    places = np.ascontiguousarray(index, np.int64)
    loop("add_rows", out.dtype.name)(sums.reshape(-1, width), places, rows.reshape(-1, width))
    if sums is not out:
        np.copyto(out, sums)


@silent
def add(x: Array, index: Array, src: Array, out: Array, axis: int, alpha: Array) -> None:
    """Write x into out, and add the slices of src, times alpha, at index along axis.

    alpha is a number of x's dtype.
    """
    np.copyto(out, x)
    x, index, src, out = _with_axes(x, index, src, out)
    _require_inside(index, x.shape[axis], axis, 0)
    if alpha != 1:
        src = np.multiply(src, alpha)
    if axis == 0 and src.size >= _MANY and src.ndim > 1 and src.dtype in _FLOATING:
        _add_rows(out, index, src)
        return
    at: tuple[Any, ...] = (*[slice(None)] * axis, index)
    np.add.at(out, at, src)


def _index(places: Places) -> Any:
    return tuple(slice(None) if place is None else place for place in places)


def _explained(error: IndexError) -> IndexError:
    return IndexError(str(error).replace("axis", "dimension"))


@silent
def take(x: Array, out: Array, places: Places) -> None:
    """Write x at places into out."""
    try:
        np.copyto(out, x[_index(places)])
    except IndexError as error:
        raise _explained(error) from None


@silent
def put(x: Array, out: Array, places: Places, accumulate: bool) -> None:
    """Write x at places of out, or add it there; x broadcasts."""
    try:
        if accumulate:
            np.add.at(out, _index(places), x)
        else:
            out[_index(places)] = x
    except IndexError as error:
        raise _explained(error) from None


@silent
def put_zeros(x: Array, out: Array, places: Places) -> None:
    """Write zeros into out, and add x at places: the adjoint of take."""
    out.fill(0)
    np.add.at(out, _index(places), x)


@silent
def replace(x: Array, src: Array, out: Array, places: Places, accumulate: bool) -> None:
    """Write x into out, then src at places of it, or add it there; src broadcasts."""
    np.copyto(out, x)
    try:
        if accumulate:
            np.add.at(out, _index(places), src)
        else:
            out[_index(places)] = src
    except IndexError as error:
        raise _explained(error) from None
