"""Conversion of results to channels_last if inputs are in channels_last, as in PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.dense_order import undone
from ..core.memory_format import channels_last, channels_last_3d
from ..devices.backend import backend_of
from ..tensor.layout import Layout
from ..tensor.tensor import Tensor, layout_of

_FORMATS = {4: channels_last, 5: channels_last_3d}


def channels_last_order(layout: Layout) -> tuple[int, ...] | None:
    """Return the axes of channels_last, slowest first, if the tensor's memory has that order.

    Memory may have gaps. Return None for C order and any other order.
    """
    known = _FORMATS.get(len(layout.shape))
    if layout.contiguous or known is None or not layout.numel:
        return None
    order = known.axes
    assert order is not None
    # From the fastest axis (the channels) to the slowest, each stride must be at least the extent
    # of the axis before in memory.
    step = 0
    for axis in reversed(order):
        if layout.strides[axis] < step or not layout.strides[axis]:
            return None
        step = layout.strides[axis] * layout.shape[axis]
    return order


def in_format_of(input: Tensor, result: Tensor | tuple[Tensor, ...]) -> Any:
    """Return a new result, or a tuple of results, in channels_last if input is in channels_last.

    Kernels write C order; the conversion copies the result once. Callers check
    `input._layout.contiguous` first, so that most inputs do not need this call.
    """
    order = channels_last_order(input._layout)
    if order is not None:
        for one in result if isinstance(result, tuple) else (result,):
            if one.__class__ is Tensor and one is not input:
                lay_in_order(one, order)
    return result


def copied_in_format(input: Tensor, result: Tensor) -> Tensor:
    """Return result, which may be a view, in channels_last if input is in channels_last."""
    order = None if input._layout.contiguous else channels_last_order(input._layout)
    if order is None:
        return result
    return result.contiguous(memory_format=_FORMATS[len(order)])


def lay_in_order(result: Tensor, order: Sequence[int]) -> None:
    """Convert the memory of a new result to an order of axes; the result keeps its Node."""
    layout = result._layout
    is_view = result._extra is not None and result._extra.base is not None
    if is_view or len(layout.shape) != len(order) or layout.has_memory_order(tuple(order)):
        return
    backend = backend_of(layout.device.type)
    given = result._array.transpose(order)
    room = backend.empty(given.shape, layout.dtype.numpy, layout.device.index)
    backend.copy_into(room, given)
    result._array = room.transpose(undone(order))
    result._layout = layout_of(result._array, layout.device)


def common_order(layouts: Sequence[Layout]) -> tuple[int, ...] | None:
    """Return the axes of channels_last, slowest first, if all layouts have that order.

    Otherwise, return None.
    """
    orders = {channels_last_order(one) for one in layouts}
    return orders.pop() if len(orders) == 1 else None
