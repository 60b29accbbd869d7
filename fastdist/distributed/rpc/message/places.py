"""Assigns CPU arrays to a message's buffers: arrays that share memory share a buffer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from fastdist.core.dense_order import dense_order, undone, walk_order
from fastdist.distributed.pipe.frames import Buffer

# The place of one array: the number of its buffer, its offset in bytes, and its strides in elements
# if these differ from the tensor's strides.
Place: TypeAlias = tuple[int, int, tuple[int, ...] | None]


def place(arrays: Sequence[np.ndarray[Any, Any]]) -> tuple[list[Place], list[Buffer]]:
    """Return the places of CPU arrays, and the buffers; arrays that overlap share one buffer."""
    buffers: list[Buffer] = []
    places: list[Place] = []
    if len(arrays) == 1:
        return [place_alone(arrays[0], buffers)], buffers
    shared: dict[int, list[int]] = {}
    for i, array in enumerate(arrays):
        shared.setdefault(id(_owner(array)), []).append(i)
    found: dict[int, Place] = {}
    for members in shared.values():
        if len(members) > 1:
            _place_together(arrays, members, found, buffers)
    for i, array in enumerate(arrays):
        places.append(found[i] if i in found else place_alone(array, buffers))
    return places, buffers


def place_alone(array: np.ndarray[Any, Any], buffers: list[Buffer]) -> Place:
    """Give an array a new buffer, and return its place."""
    if array.flags.c_contiguous:
        buffers.append(_memory_of(array))
        return len(buffers) - 1, 0, None
    order = dense_order(array.shape, array.strides, array.itemsize)
    if order is not None:
        buffers.append(_memory_of(array.transpose(order)))
        return len(buffers) - 1, 0, None
    walked = walk_order(array.shape, array.strides)
    copied = np.ascontiguousarray(array if walked is None else array.transpose(walked))
    buffers.append(_memory_of(copied))
    if walked is not None:
        copied = copied.transpose(undone(walked))
    return len(buffers) - 1, 0, tuple(step // array.itemsize for step in copied.strides)


def _memory_of(array: np.ndarray[Any, Any]) -> Buffer:
    if not array.size:
        return b""
    if array.dtype.isbuiltin == 1:
        return array.data.cast("B")
    # Arrays of ml_dtypes' bfloat16 do not support the buffer protocol. Their view as uint8 does.
    return array.reshape(-1).view(np.uint8).data


def _place_together(
    arrays: Sequence[np.ndarray[Any, Any]],
    members: list[int],
    found: dict[int, Place],
    buffers: list[Buffer],
) -> None:
    """Give each set of overlapping arrays one buffer, from their first byte to their last byte."""
    first = arrays[members[0]]
    if first.size and all(arrays[i] is first for i in members):
        # One array occurs several times: the gradients of x + y, for example, are one array.
        place = place_alone(first, buffers)
        found.update((i, place) for i in members)
        return
    whole = _bytes_of(_owner(arrays[members[0]]))
    if whole is None or any(step < 0 for i in members for step in arrays[i].strides):
        return
    start = whole.__array_interface__["data"][0]
    spans = sorted(
        (*np.lib.array_utils.byte_bounds(arrays[i]), i) for i in members if arrays[i].size
    )
    while spans:
        low, high, i = spans.pop(0)
        together = [(low, i)]
        while spans and spans[0][0] < high:
            next_low, next_high, i = spans.pop(0)
            together.append((next_low, i))
            high = max(high, next_high)
        if len(together) > 1:
            for at, i in together:
                found[i] = (len(buffers), at - low, None)
            buffers.append(whole[low - start : high - start].data)


def _owner(array: np.ndarray[Any, Any]) -> Any:
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array if array.base is None else array.base


def _bytes_of(owner: Any) -> np.ndarray[Any, Any] | None:
    """Return all memory of `owner` as an array of bytes without a copy, or None if impossible."""
    if isinstance(owner, np.ndarray):
        if owner.flags.c_contiguous:
            return owner.reshape(-1).view(np.uint8)
        return owner.T.reshape(-1).view(np.uint8) if owner.flags.f_contiguous else None
    try:
        return np.frombuffer(owner, np.uint8)
    except (TypeError, ValueError, BufferError):
        return None
