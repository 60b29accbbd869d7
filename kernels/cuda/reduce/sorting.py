"""Sorting along an axis, on CUDA arrays. NaN counts as the largest, and sorting is stable.

Thread  any; queued on the current stream of out's device, without waiting
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from fastdist.language.scalar import parse

from ..index.indexing import gather
from ..launch import launch
from ..pointwise.pointwise import pointwise
from ..prepared import on_device_of_out
from .radix import can_select, is_in_one_launch, plan_nth, plan_order, plan_selection

_SAME: Final = parse("x", ("x",))


@on_device_of_out
def sort(x: Any, out: Any, indices: Any, axis: int, descending: bool) -> None:
    """Write x, sorted along axis, into out, and the original indices into indices."""
    _choose(x, out, indices, axis, out.shape[axis] if out.ndim else 1, descending)


@on_device_of_out
def topk(x: Any, out: Any, indices: Any, axis: int, k: int, largest: bool) -> None:
    """Write the k largest (or smallest) elements of x along axis into out, sorted, and their
    indices into indices.
    """
    _choose(x, out, indices, axis, k, largest)


@on_device_of_out
def nth(x: Any, places: Any, out: Any, indices: Any, axis: int) -> None:
    """Write into out the elements that sorting x along axis would move to positions `places`, and
    into indices their original indices. places, out and indices have length 1 along axis.
    """
    import cupy

    if not out.size:
        return
    if not x.ndim:
        pointwise(_SAME, [x], out)
        indices.fill(0)
        return
    axis %= x.ndim
    length = x.shape[axis]
    if is_in_one_launch(length, x.dtype):
        gather(_in_order(x, axis, length, False), places, indices, axis)
    else:
        rows = _rows(x, axis).reshape((-1, length))
        chosen = cupy.empty(places.shape, np.dtype(np.int64))
        launch(plan_nth(rows, _rows(places, axis).reshape((-1,)), chosen.reshape((-1,))))
        pointwise(_SAME, [chosen], indices)
    gather(x, indices, out, axis)


def _rows(x: Any, axis: int) -> Any:
    """Return x with axis last, in C order: a view if x has this order, otherwise a copy."""
    import cupy

    rows = x.transpose((*[each for each in range(x.ndim) if each != axis], axis))
    if rows.flags.c_contiguous:
        return rows
    packed = cupy.empty(rows.shape, x.dtype)
    pointwise(_SAME, [rows], packed)
    return packed


def _choose(x: Any, out: Any, indices: Any, axis: int, k: int, largest: bool) -> None:
    if not out.size:
        return
    if not x.ndim:
        pointwise(_SAME, [x], out)
        indices.fill(0)
        return
    axis %= x.ndim
    places = _in_order(x, axis, k, largest)
    pointwise(_SAME, [places[(*[slice(None)] * axis, slice(0, k))]], indices)
    gather(x, indices, out, axis)


def _in_order(x: Any, axis: int, k: int, largest: bool) -> Any:
    """Return the indices that sort x along axis, at least for the first k elements; descending if
    `largest`. Sorting is stable.
    """
    import cupy

    others = [each for each in range(x.ndim) if each != axis]
    rows = _rows(x, axis)
    length = x.shape[axis]
    flat = (math.prod(rows.shape[:-1]), length)
    selects = can_select(flat, x.dtype, k)
    order = cupy.empty((flat[0], k) if selects else flat, np.dtype(np.int64))
    plan = plan_selection if selects else plan_order
    launch(plan(rows.reshape(flat), order, descending=largest))
    back = [others.index(each) if each != axis else x.ndim - 1 for each in range(x.ndim)]
    return order.reshape((*rows.shape[:-1], order.shape[1])).transpose(back)
