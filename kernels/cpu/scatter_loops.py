"""Reading and writing at an index along one axis, compiled: what many elements are worth.

Bound by memory: a step goes to a place of its own. Each loop stops at the first place that an axis
does not have, and returns it: see Note [Indices that change] in bounds.py.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from .bounds import outside
from .compiler import compiled
from .places import INSIDE, as_bits, refuse

Array = np.ndarray[Any, Any]


@compiled("index_add")
def add_rows(into: Any, index: Any, x: Any) -> Any:
    """Add the rows of the matrix x to those at index of the matrix into, one after the other."""
    for i in range(len(index)):
        place = np.uint64(index[i])
        if place >= np.uint64(len(into)):
            return outside(place)
        to, row = into[place], x[i]
        for j in range(len(to)):
            to[j] += row[j]
    return INSIDE


@compiled(alone=False)
def _gather_row(x: Any, index: Any, out: Any) -> Any:
    for k in range(len(index)):
        place = np.uint64(index[k])
        if place >= np.uint64(len(x)):
            return outside(place)
        out[k] = x[place]
    return INSIDE


@compiled("gather")
def _gather(x: Any, index: Any, out: Any) -> Any:
    for o in range(index.shape[0]):
        if index.shape[2] == 1:
            found = _gather_row(x[o, :, 0], index[o, :, 0], out[o, :, 0])
            if found != INSIDE:
                return found
            continue
        for k in range(index.shape[1]):
            for j in range(index.shape[2]):
                place = np.uint64(index[o, k, j])
                if place >= np.uint64(x.shape[1]):
                    return outside(place)
                out[o, k, j] = x[o, place, j]
    return INSIDE


@compiled(inline=True)
def _set(old: Any, new: Any) -> Any:
    return new


@compiled(inline=True)
def _add(old: Any, new: Any) -> Any:
    return old + new


@compiled(inline=True)
def _multiply(old: Any, new: Any) -> Any:
    return old * new


@compiled(inline=True)
def _larger(old: Any, new: Any) -> Any:
    return new if new > old or new != new else old


@compiled(inline=True)
def _smaller(old: Any, new: Any) -> Any:
    return new if new < old or new != new else old


_MEETINGS: Final = {
    "set": _set, "sum": _add, "mean": _add, "prod": _multiply, "amax": _larger, "amin": _smaller
}  # fmt: skip


@functools.cache
def _scatter(way: str) -> Callable[..., int]:
    met = _MEETINGS[way]

    @compiled(alone=False)
    def row(index: Any, src: Any, out: Any) -> Any:
        for k in range(len(index)):
            place = np.uint64(index[k])
            if place >= np.uint64(len(out)):
                return outside(place)
            out[place] = met(out[place], src[k])
        return INSIDE

    @compiled(alone=False)
    def slice_(src: Any, out: Any) -> None:
        for j in range(len(src)):
            out[j] = met(out[j], src[j])

    @compiled("scatter")
    def loop(index: Any, src: Any, out: Any) -> Any:
        for o in range(index.shape[0]):
            if index.shape[2] == 1:
                found = row(index[o, :, 0], src[o, :, 0], out[o, :, 0])
                if found != INSIDE:
                    return found
                continue
            for k in range(index.shape[1]):
                if index.strides[2] == 0:  # one place for a whole slice, as in index_reduce
                    place = np.uint64(index[o, k, 0])
                    if place >= np.uint64(out.shape[1]):
                        return outside(place)
                    slice_(src[o, k], out[o, place])
                    continue
                for j in range(index.shape[2]):
                    place = np.uint64(index[o, k, j])
                    if place >= np.uint64(out.shape[1]):
                        return outside(place)
                    out[o, place, j] = met(out[o, place, j], src[o, k, j])
        return INSIDE

    return loop  # type: ignore[no-any-return]


def gather(x: Array, index: Array, into: Array, axis: int) -> None:
    """Write x's element at index along axis into `into`."""
    found = into if into.flags.c_contiguous else np.empty(into.shape, into.dtype)
    read = _lines(as_bits(x), index.shape, axis)
    met = _gather(read, _lines(index, index.shape, axis), _lines(as_bits(found), index.shape, axis))
    if met != INSIDE or not x.shape[axis]:
        refuse(met, x.shape[axis], axis)
    if found is not into:
        np.copyto(into, found)


def scatter(index: Array, src: Array, into: Array, axis: int, way: str) -> None:
    """Write src at index along axis into `into`: "set" there, or as scattering.reduce has it.

    Note    src broadcasts to index; half types, which no loop has, can only be set
    """
    part = tuple(slice(None if i == axis else n) for i, n in enumerate(index.shape))
    whole = into[part]
    written = whole if whole.flags.c_contiguous else np.ascontiguousarray(whole)
    given = np.broadcast_to(
        src[tuple(slice(n) for n in index.shape)] if src.ndim else src, index.shape
    )
    lines = [_lines(one, index.shape, axis) for one in (index, as_bits(given), as_bits(written))]
    met = _scatter(way)(*lines)
    if met != INSIDE or not into.shape[axis]:
        refuse(met, into.shape[axis], axis)
    if written is not whole:
        np.copyto(whole, written)


def _lines(x: Array, shape: tuple[int, ...], axis: int) -> Array:
    """Return x, cut to shape but along axis, as (outer, length, inner)."""
    x = x[tuple(slice(None if i == axis else n) for i, n in enumerate(shape))]
    outer = int(np.prod(x.shape[:axis], dtype=np.int64))
    return x.reshape(outer, x.shape[axis], int(np.prod(x.shape[axis + 1 :], dtype=np.int64)))
