"""Reduction of elements that share an index, on the CPU, in the order of memory."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ..jit.background import is_numpys_turn
from ..silence import silent
from . import along_axis
from .indices import MANY, grid_of, own_copy, with_axes

Array = np.ndarray[Any, Any]

_UFUNCS: Final = {
    "sum": np.add, "mean": np.add, "prod": np.multiply, "amax": np.maximum, "amin": np.minimum
}  # fmt: skip


def _start(way: str, dtype: np.dtype[Any]) -> Any:
    """Return the neutral element of a reduction."""
    if way in ("sum", "mean", "prod"):
        return dtype.type(way == "prod")
    if dtype == np.bool_:
        return np.bool_(way == "amin")
    if dtype.kind == "f":
        return dtype.type(-np.inf if way == "amax" else np.inf)
    bounds = np.iinfo(dtype)
    return dtype.type(bounds.min if way == "amax" else bounds.max)


def _meet(
    index: Array, src: Array, out: Array, axis: int, way: str, include_self: bool,
    count: Array | None,
) -> None:  # fmt: skip
    """Do the reduction of `reduce` with compiled loops instead of ufuncs."""
    if not include_self:
        along_axis.scatter(index, np.asarray(_start(way, out.dtype)), out, axis, "set")
    along_axis.scatter(index, src, out, axis, way)
    if count is not None:
        along_axis.scatter(index, np.ones((), np.int64), count, axis, "sum")


def _compile(index: Any, is_spread: bool, dtype: Any, way: str, include_self: bool) -> None:
    places = np.zeros((2, 1 if is_spread else 2), index)
    one, count = np.zeros((2, 2), dtype), np.zeros((2, 2), np.int64)
    # An index that was expanded from one number per slice has another layout.
    given = np.broadcast_to(places, (2, 2)) if is_spread else places
    for axis in (0, 1):  # each axis has its own loop
        _meet(given, one, one.copy(), axis, way, include_self, count if way == "mean" else None)


@silent
def reduce(
    x: Array, index: Array, src: Array, out: Array, axis: int, way: str, include_self: bool
) -> None:
    """Write x into out. Then reduce all elements of src that share an index along axis by `way`:
    sum, mean, prod, amax or amin. Write the result into the element of out at that index. With
    include_self, the old value of this element takes part in the reduction.

    The mean of integers is rounded down.
    """
    x, index, src, out = with_axes(x, index, src, out)
    if out.dtype == np.bool_ and way == "sum":
        way = "amax"
    np.copyto(out, x)
    src = src[tuple(slice(n) for n in index.shape)].astype(out.dtype, copy=False)
    count = np.full(out.shape, int(include_self)) if way == "mean" else None
    kind = index.dtype, not index.flags.c_contiguous, out.dtype, way, include_self
    if index.size >= MANY and not is_numpys_turn(_compile, *kind):
        _meet(index, src, out, axis, way, include_self, count)
    else:
        places = grid_of(own_copy(index, out.shape[axis], axis), axis)
        if not include_self:
            out[places] = _start(way, out.dtype)
        _UFUNCS[way].at(out, places, src)
        if count is not None:
            np.add.at(count, places, 1)
    if count is not None:
        np.maximum(count, 1, out=count)
        if out.dtype.kind == "f":
            np.divide(out, count.astype(out.dtype), out=out)
        else:
            np.floor_divide(out, count, out=out, casting="unsafe")
