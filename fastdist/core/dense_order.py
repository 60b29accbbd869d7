"""The order of axes in memory, such as channels_last, which copies preserve."""

from __future__ import annotations

from collections.abc import Sequence


def dense_order(
    shape: Sequence[int], strides: Sequence[int], unit: int = 1
) -> tuple[int, ...] | None:
    """Return the axes in memory order, slowest first, if memory has no gaps and its axes are
    permuted, as in channels_last. Return None for C order and for any other memory.

    Units   strides count elements if unit is 1, and bytes if unit is the item size
    """
    axes = range(len(shape))
    if _is_packed(axes, shape, strides, unit):
        return None
    order = _walked(shape, strides)
    return order if _is_packed(order, shape, strides, unit) else None


def walk_order(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, ...] | None:
    """Return the axes in memory order, slowest first: the order that copies preserve. The memory
    may have gaps. Return None for C order, and for memory with repeated elements or negative
    strides.
    """
    axes = range(len(shape))
    if any(strides[axis] <= 0 and shape[axis] > 1 for axis in axes):
        return None
    order = _walked(shape, strides)
    moving = [axis for axis in order if shape[axis] != 1]
    return None if moving == sorted(moving) else order


def _walked(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    # In C order an axis of length 1 has the same stride as the axis before it. The second key sorts
    # it behind that axis.
    return tuple(sorted(range(len(shape)), key=lambda axis: (-strides[axis], shape[axis] == 1)))


def _is_packed(
    order: Sequence[int], shape: Sequence[int], strides: Sequence[int], unit: int
) -> bool:
    """Return whether memory has no gaps when its axes are in this order, slowest first."""
    step = unit
    for axis in reversed(order):
        if shape[axis] != 1:
            if strides[axis] != step:
                return False
            step *= shape[axis]
    return True


def undone(order: Sequence[int]) -> tuple[int, ...]:
    """Return the inverse of a permutation of axes."""
    return tuple(sorted(range(len(order)), key=order.__getitem__))
