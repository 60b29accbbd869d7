"""Reads and writes at places given by index tensors, on the CPU.

If several values go to one place, a sum adds them in the order of the index, and a plain write
keeps the last one. So each run gives the same result.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from ..jit.background import is_numpys_turn
from ..silence import silent
from . import along_axis, place_pairs
from .indices import INSIDE, MANY, grid_of, own_copy, refuse, require_inside, with_axes

Array = np.ndarray[Any, Any]
# For each axis of the indexed array: an array of indices, or None for the whole axis.
Places = tuple[Array | None, ...]
# The number of indices that are copied at a time: their 32 KiB stay in the L1 cache, and the C
# library reuses the memory for the next copy.
_BLOCK: Final = 1 << 12
# From this many indices on, the compiled loop for a vector, with its launch, is as fast as NumPy.
_MANY_OF_A_LINE: Final = 2 * MANY
# For fewer numbers NumPy moves elements faster than the loops. For additions, which take NumPy 6 ns
# per number, this limit is MANY instead.
_MANY_TO_MOVE: Final = 4 * MANY
_FLOATING = (np.dtype(np.float32), np.dtype(np.float64))


# Each function _compile_... below compiles loops by calling them with small arrays of the given
# dtypes.
def _compile_gather(x: Any, index: Any) -> None:

    for axis in (0, 1):  # each axis has its own loop
        given = np.zeros((2, 2), x), np.zeros((2, 2), index), np.zeros((2, 2), x)
        along_axis.gather(*given, axis)


def _compile_scatter(src: Any, index: Any, out: Any, way: str) -> None:

    for axis in (0, 1):  # each axis has its own loop
        given = np.zeros((2, 2), index), np.zeros((2, 2), src), np.zeros((2, 2), out)
        along_axis.scatter(*given, axis, way)


def _compile_slices(src: Any, index: Any, out: Any) -> None:

    for axis, shape in enumerate([(2, 1), (1, 2)]):  # each axis has its own loop
        spread = np.broadcast_to(np.zeros(shape, index), (2, 2))
        along_axis.scatter(spread, np.zeros((2, 2), src), np.zeros((2, 2), out), axis, "sum")


def _compile_rows(dtype: Any) -> None:
    _add_rows(np.zeros((2, 2), dtype), np.zeros(2, np.int64), np.zeros((2, 2), dtype))


@silent
def _add_at(index: Array, src: Array, out: Array, axis: int) -> None:
    index, src, out = with_axes(index, src, out)
    is_many = index.size >= MANY and out.dtype.itemsize >= 4
    if is_many and not is_numpys_turn(_compile_scatter, src.dtype, index.dtype, out.dtype, "sum"):
        along_axis.scatter(index, src, out, axis, "sum")
        return
    own = own_copy(index, out.shape[axis], axis)
    np.add.at(out, grid_of(own, axis), src[tuple(slice(n) for n in own.shape)])


@silent
def gather(x: Array, index: Array, out: Array, axis: int) -> None:
    """Write the elements of x at index along axis into out; along other axes, index may be shorter
    than x.
    """
    if not index.size:
        return
    x, index, out = with_axes(x, index, out)
    if index.size >= MANY and not is_numpys_turn(_compile_gather, x.dtype, index.dtype):
        along_axis.gather(x, index, out, axis)
        return
    np.copyto(out, x[grid_of(own_copy(index, x.shape[axis], axis), axis)])


@silent
def scatter(x: Array, index: Array, src: Array, out: Array, axis: int) -> None:
    """Write x into out, then src at index along axis. src is one number, or has as many axes as
    index.
    """
    np.copyto(out, x)
    if not index.size:
        return
    x, index, out = with_axes(x, index, out)
    kind = src.dtype, index.dtype, out.dtype
    if index.size >= MANY and not is_numpys_turn(_compile_scatter, *kind, "set"):
        along_axis.scatter(index, src, out, axis, "set")
        return
    own = own_copy(index, x.shape[axis], axis)
    if src.ndim:
        src = src[tuple(slice(n) for n in own.shape)]
    out[grid_of(own, axis)] = src


@silent
def scatter_add(x: Array, index: Array, src: Array, out: Array, axis: int) -> None:
    """Write x into out, and add src at index along axis."""
    np.copyto(out, x)
    if not index.size:
        return
    _add_at(index, src, out, axis)


@silent
def scatter_zeros(x: Array, index: Array, out: Array, axis: int) -> None:
    """Write zeros into out, and add x at index along axis."""
    out.fill(0)
    if not index.size:
        return
    _add_at(index, x, out, axis)


@silent
def select(x: Array, index: Array, out: Array, axis: int) -> None:
    """Write the slices of x at index along axis into out (index_select)."""
    x, index, out = with_axes(x, index, out)
    require_inside(index, x.shape[axis], axis)
    # With mode="clip", NumPy clips each index when it uses it, so an index that changes after the
    # check cannot do harm.
    np.take(x, index, axis, out=out, mode="clip")


def _add_rows(out: Array, index: Array, src: Array) -> None:
    """Add row i of src to row index[i] of out, in order, as np.add.at does."""
    sums, rows = np.ascontiguousarray(out), np.ascontiguousarray(src)
    width = sums.size // len(sums)
    places = np.ascontiguousarray(index, np.int64)
    found = along_axis.add_rows(sums.reshape(-1, width), places, rows.reshape(-1, width))
    if found != INSIDE:
        refuse(found, len(sums), 0)
    if sums is not out:
        np.copyto(out, sums)


@silent
def add(x: Array, index: Array, src: Array, out: Array, axis: int, alpha: Array) -> None:
    """Write x into out, and add the slices of src, times alpha, at index along axis (index_add).

    alpha is a number of x's dtype.
    """
    np.copyto(out, x)
    x, index, src, out = with_axes(x, index, src, out)
    if alpha != 1:
        src = np.multiply(src, alpha)
    of_rows = axis == 0 and src.size >= MANY and src.ndim > 1 and src.dtype in _FLOATING
    is_many = src.size >= MANY and out.dtype.itemsize >= 4 and not of_rows
    by_rows = of_rows and not is_numpys_turn(_compile_rows, src.dtype)
    kind = src.dtype, index.dtype, out.dtype
    if not by_rows and not (is_many and not is_numpys_turn(_compile_slices, *kind)):
        own = own_copy(index, x.shape[axis], axis)
        at: tuple[Any, ...] = (*[slice(None)] * axis, own)
        np.add.at(out, at, src)
        return
    # Before anything is added, raise for an index that is out of bounds. The loops check again.
    require_inside(index, x.shape[axis], axis)
    if by_rows:
        _add_rows(out, index, src)
        return

    column = index.reshape([-1 if i == axis else 1 for i in range(src.ndim)])
    along_axis.scatter(np.broadcast_to(column, src.shape), src, out, axis, "sum")


def _index(places: Places) -> Any:
    """Return a NumPy index with private copies: see Note [Indices that change] in bounds.py."""
    return tuple([slice(None) if place is None else place.copy() for place in places])


def _explained(error: IndexError) -> IndexError:
    return IndexError(str(error).replace("axis", "dimension"))


def _blocks(places: Places) -> Iterator[tuple[Any, Any]]:
    """Yield, for each block of indices, a NumPy index with private copies, and the index of the
    elements of the result that this block fills. Vectors of one length are copied in blocks, which
    stay in the cache; other indices are one block.
    """
    first, end = _ends_of(places)
    shapes = {None if place is None else place.shape for place in places[first:end]}
    # If the indexed axes are adjacent, one axis of the result replaces them, at the position of the
    # first.
    shape = shapes.pop() if len(shapes) == 1 else None
    if shape is None or len(shape) != 1 or shape[0] <= _BLOCK:
        yield _index(places), Ellipsis
        return
    (count,) = shape
    for begin in range(0, count, _BLOCK):
        some = slice(begin, begin + _BLOCK)
        own = [None if place is None else place[some] for place in places]
        yield _index(tuple(own)), (*[slice(None)] * first, some)


def _ends_of(places: Places) -> tuple[int, int]:
    """Return the first indexed axis, and the axis after the last indexed one."""
    used = [axis for axis, place in enumerate(places) if place is not None]
    return used[0], used[-1] + 1


def _vectors(
    x: Array, places: Places, least: int
) -> tuple[int, tuple[int, ...], list[Array]] | None:
    """Return the first indexed axis of x, the shape of the indexed part, and the indices as
    vectors. Return None if the indexed part has fewer numbers than `least` and there are fewer
    indices than MANY, or if there is no loop for these indices.
    """
    first, end = _ends_of(places)
    named = [place for place in places[first:end] if place is not None]
    is_one_shape = len({place.shape for place in named}) == 1 and len(named) == end - first
    if not is_one_shape or not x.size:
        return None
    shape = (*x.shape[:first], *named[0].shape, *x.shape[end:])
    if named[0].size < MANY and math.prod(shape) < least:
        return None
    # If x has only one or two axes, and all are indexed, it may have any strides.
    is_whole = first == 0 and end == x.ndim <= 2 and x.dtype.itemsize <= 8
    if not (x.flags.c_contiguous or is_whole):
        return None
    if any(place.dtype.kind != "i" for place in named):
        return None
    # np.ascontiguousarray copies only some of the indices; loops check each index, copied or not.
    return first, shape, [np.ascontiguousarray(place, np.int64).reshape(-1) for place in named]


def _is_line(x: Array, out: Array, place: Any) -> bool:
    """Return whether the loops for vectors can run on these arrays."""
    return (
        place.dtype == np.int64
        and place.flags.c_contiguous
        and x.size > 0
        and x.flags.c_contiguous
        and out.flags.c_contiguous
        and x.dtype.itemsize <= 8
    )


def _compile_line(itemsize: int) -> None:

    one = np.zeros(1, f"u{itemsize}")
    place_pairs.take_line(one, one.copy(), np.zeros(1, np.int64))


def _compile_put_line(dtype: Any, add: bool) -> None:

    one = np.zeros(1, dtype)
    place_pairs.put_line(one, one.copy(), np.zeros(1, np.int64), add=add)


def _compile_take(itemsize: int) -> None:

    one, place = np.zeros((1, 1), f"u{itemsize}"), np.zeros(1, np.int64)
    place_pairs.take(one, one[0], [place, place], 0)
    place_pairs.take(one[None], one[0], [place, place, place], 0)


def _compile_put(dtype: Any, add: bool) -> None:

    one, place = np.zeros((1, 1), dtype), np.zeros(1, np.int64)
    place_pairs.put(one[0], one, [place, place], 0, (1,), add=add)
    place_pairs.put(one[0], one[None], [place, place, place], 0, (1,), add=add)


@silent
def take(x: Array, out: Array, places: Places) -> None:
    """Write the elements of x at `places` into out."""
    line = places[0] if x.ndim == 1 and out.size >= _MANY_OF_A_LINE else None
    if (
        line is not None
        and _is_line(x, out, line)
        and not is_numpys_turn(_compile_line, x.dtype.itemsize)
    ):
        place_pairs.take_line(x, out, line)
        return
    least = MANY if x.ndim > 1 else 2 * _MANY_OF_A_LINE
    is_for_loops = out.flags.c_contiguous and out.size >= least
    found = _vectors(x, places, _MANY_TO_MOVE) if is_for_loops else None
    if found and not is_numpys_turn(_compile_take, min(x.dtype.itemsize, 8)):
        place_pairs.take(x, out, found[2], found[0])
        return
    try:
        if out.size <= _BLOCK:
            np.copyto(out, x[_index(places)])
            return
        for index, part in _blocks(places):
            out[part] = x[index]
    except IndexError as error:
        raise _explained(error) from None


@silent
def put(x: Array, out: Array, places: Places, accumulate: bool) -> None:
    """Write x to out at `places`, or add x if `accumulate`; x is broadcast to the indexed part.

    Raises  IndexError, before anything is written, for an index that is out of bounds
    """
    # The loops cannot add half types, bool or short integers.
    is_ours = x.dtype == out.dtype and not (accumulate and out.dtype.itemsize < 4)
    kind = out.dtype if accumulate else np.dtype(f"u{min(out.dtype.itemsize, 8)}")
    line = places[0] if is_ours and out.ndim == 1 and x.size >= MANY else None
    if (
        line is not None
        and x.shape == line.shape
        and _is_line(out, x, line)
        and not is_numpys_turn(_compile_put_line, kind, accumulate)
    ):
        place_pairs.put_line(x, out, line, add=accumulate)
        return
    found = _vectors(out, places, MANY if accumulate else _MANY_TO_MOVE) if is_ours else None
    if found and not is_numpys_turn(_compile_put, kind, accumulate):
        first, shape, vectors = found
        place_pairs.put(x, out, vectors, first, shape, add=accumulate)
        return
    try:
        if accumulate:
            np.add.at(out, _index(places), x)
            return
        out[_index(places)] = x
    except IndexError as error:
        raise _explained(error) from None


@silent
def put_zeros(x: Array, out: Array, places: Places) -> None:
    """Write zeros into out, and add x at places: the adjoint of take."""
    out.fill(0)
    put(x, out, places, True)


@silent
def replace(x: Array, src: Array, out: Array, places: Places, accumulate: bool) -> None:
    """Write x into out, then write src to out at `places`, or add src if `accumulate`. src is
    broadcast to the indexed part.
    """
    np.copyto(out, x)
    put(src, out, places, accumulate)
