"""Shapes and strides in the form in which kernels iterate: few axes, long contiguous runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple


class Walk(NamedTuple):
    """Axes, outermost first, and each operand's strides along them. There is at least one axis.

    Units   strides in elements
    """

    shape: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]

    @property
    def size(self) -> int:
        total = 1
        for length in self.shape:
            total *= length
        return total

    def is_contiguous(self, operand: int) -> bool:
        """Return whether the operand's elements are contiguous in the order of the walk."""
        return len(self.shape) == 1 and (self.strides[operand][0] == 1 or self.shape[0] <= 1)


def walk(shape: Sequence[int], strides: Sequence[Sequence[int]]) -> Walk:
    """Return the walk over shape with the fewest axes: they are in the memory order of the last
    operand, and merged where possible.

    Note    elementwise kernels may use any order of elements; the order affects sums, and depends
            on the layout alone
    """
    axes = [axis for axis, length in enumerate(shape) if length != 1]
    # Stable sorts: for axes with equal strides in the last operand, earlier operands decide.
    for operand in strides:
        axes.sort(key=lambda axis, operand=operand: -abs(operand[axis]))  # type: ignore[misc]
    merged: list[tuple[int, list[int]]] = []
    for axis in axes:
        length, steps = shape[axis], [operand[axis] for operand in strides]
        if merged and merged[-1][1] == [step * length for step in steps]:
            merged[-1] = (merged[-1][0] * length, steps)
        else:
            merged.append((length, steps))
    if not merged:
        merged = [(1, [0] * len(strides))]
    lengths = tuple(length for length, _ in merged)
    return Walk(lengths, tuple(zip(*(steps for _, steps in merged), strict=True)))


def element_strides(array: Any) -> tuple[int, ...]:
    """Return the strides of an array in elements.

    Raises  ValueError for a view whose strides are not multiples of the element size
    """
    itemsize: int = array.dtype.itemsize
    if any(stride % itemsize for stride in array.strides):
        raise ValueError(f"strides {array.strides!r} are not multiples of the itemsize {itemsize}")
    return tuple(stride // itemsize for stride in array.strides)


def broadcast_strides(array: Any, shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides, in elements, with which an array is read when broadcast to shape."""
    lengths, strides = tuple(array.shape), element_strides(array)
    own = [0 if length == 1 else stride for length, stride in zip(lengths, strides, strict=True)]
    return (*(0,) * (len(shape) - len(own)), *own)
