"""Sorting along an axis, on the CPU. NaN counts as the largest, and sorting is stable."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ..index.indices import own_copy
from ..silence import silent

Array = np.ndarray[Any, Any]


@silent
def _in_order(x: Array, largest: bool) -> Array:
    """Return the indices that sort the last axis; equal elements keep their order."""
    if not largest:
        return np.argsort(x, axis=-1, kind="stable")
    # Sorting the reversed axis in ascending order, and reversing the result, keeps the order of
    # equal elements.
    mirrored = np.argsort(np.flip(x, -1), axis=-1, kind="stable")
    places: Array = np.subtract(x.shape[-1] - 1, np.flip(mirrored, -1))
    return places


@silent
def sort(x: Array, out: Array, indices: Array, axis: int, descending: bool) -> None:
    """Write the sorted x along axis into out, and the original indices into indices."""
    if x.ndim == 0:
        np.copyto(out, x)
        indices.fill(0)
        return
    rows = np.moveaxis(x, axis, -1)
    places = _in_order(rows, descending)
    np.copyto(np.moveaxis(indices, axis, -1), places)
    np.copyto(np.moveaxis(out, axis, -1), np.take_along_axis(rows, places, -1))


# If k is a smaller part of a row than this, the k elements are selected before they are sorted.
_PART: Final = 1 / 8


@silent
def _chosen(x: Array, k: int, largest: bool) -> Array:
    """Return the indices of the k largest (or smallest) elements along the last axis, in ascending
    order of the indices. Among equal elements, the first ones are chosen. x contains no NaN.
    """
    at = x.shape[-1] - k if largest else k - 1
    bound = np.partition(x, at, -1)[..., at, None]
    beyond, equal = (x > bound if largest else x < bound), x == bound
    room = np.subtract(k, beyond.sum(-1, keepdims=True))
    if (equal.sum(-1, keepdims=True) > room).any():
        equal &= equal.cumsum(-1) <= room
    places: Array = (beyond | equal).nonzero()[-1]
    return places.reshape(*x.shape[:-1], k)


@silent
def topk(x: Array, out: Array, indices: Array, axis: int, k: int, largest: bool) -> None:
    """Write the k largest (or smallest) of x along axis into out, sorted, and their indices into
    indices.
    """
    if x.ndim == 0:
        np.copyto(out, x)
        indices.fill(0)
        return
    rows = np.moveaxis(x, axis, -1)
    if k == 1 and largest:
        places = rows.argmax(-1)[..., None]
    elif 0 < k <= rows.shape[-1] * _PART and not (x.dtype.kind == "f" and np.isnan(x).any()):
        places = _chosen(rows, k, largest)
        order = _in_order(np.take_along_axis(rows, places, -1), largest)
        places = np.take_along_axis(places, order, -1)
    else:
        places = _in_order(rows, largest)[..., :k]
    np.copyto(np.moveaxis(indices, axis, -1), places)
    np.copyto(np.moveaxis(out, axis, -1), np.take_along_axis(rows, places, -1))


@silent
def nth(x: Array, places: Array, out: Array, indices: Array, axis: int) -> None:
    """Write the elements at positions `places` of the sorted x along axis into out, and their
    original indices into indices. places, out and indices have length 1 along axis.
    """
    if not out.size:
        return
    if x.ndim == 0:
        np.copyto(out, x)
        indices.fill(0)
        return
    own = own_copy(places, x.shape[axis], axis)
    rows, wanted = np.moveaxis(x, axis, -1), np.moveaxis(own, axis, -1)
    first = wanted.flat[0]
    different = first if (wanted == first).all() else np.unique(wanted)
    bound = np.take_along_axis(np.partition(rows, different, -1), wanted, -1)
    before, equal = rows < bound, rows == bound
    if x.dtype.kind == "f" and (is_nan := np.isnan(bound)).any():
        nans = np.isnan(rows)
        before |= ~nans & is_nan
        equal |= nans & is_nan
    among = wanted - before.sum(-1, keepdims=True)
    found = equal.argmax(-1)[..., None]
    if among.any():
        found = (equal.cumsum(-1) > among).argmax(-1)[..., None]
    np.copyto(np.moveaxis(indices, axis, -1), found)
    np.copyto(np.moveaxis(out, axis, -1), np.take_along_axis(rows, found, -1))
