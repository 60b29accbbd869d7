"""Indices along one axis: bounds checks, private copies, and views as integers for moves."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from fastdist.core.dtypes import WIDE
from fastdist.core.errors import ShapeError

Array = np.ndarray[Any, Any]
# From this many elements on, a compiled loop is used: on one core, adding 256 rows of 64 float32
# takes 33 us with the loop, and 280 with np.add.at.
MANY: Final = 4096
# The result of a compiled loop in which no index was out of bounds: see Note [Indices that change]
# in bounds.py.
INSIDE: Final = 0
# Each loop on several threads gets a copy of this array, and writes its result into the copy.
ALL_INSIDE: Final = np.full(1, INSIDE)


class OutOfBounds(ShapeError, IndexError):
    """An index out of bounds: an IndexError as in Python, and a RuntimeError as in PyTorch."""


def refuse(index: int, length: int, axis: int) -> Any:
    """Raise OutOfBounds for an index on an axis of this length."""
    raise OutOfBounds(f"index {index} is out of bounds for dimension {axis} with size {length}")


def ends(index: Array) -> tuple[int, int]:
    """Return the smallest and the largest element of `index`. The array must not be empty, and must
    be small or in C order. argmin and argmax take a quarter of the time of min and max, which are
    Python functions.
    """
    return index.item(index.argmin()), index.item(index.argmax())


def require_inside(index: Array, length: int, axis: int) -> None:
    """Raise OutOfBounds if an index is out of bounds for an axis of this length."""
    if index.size:
        low, high = ends(index)
        if low < 0 or high >= length:
            refuse(low if low < 0 else high, length, axis)


def own_copy(index: Array, length: int, axis: int) -> Array:
    """Return a private copy of index, for NumPy's loops, which read an index again after its check.

    Raises  OutOfBounds for an index that is out of bounds for the length
    """
    own = index.copy()
    require_inside(own, length, axis)
    return own


def refuse_class(found: int, classes: int) -> Any:
    """Raise OutOfBounds for a class number that is out of range."""
    raise OutOfBounds(
        f"Target {found} is out of bounds. There are {classes} classes, 0 to {classes - 1}"
    )


def own_classes(target: Array, classes: int) -> Array:
    """Return a private copy of class numbers, for NumPy's loops.

    Raises  OutOfBounds for a number that is out of range
    """
    own = target.copy()
    if own.size:
        low, high = ends(own)
        if low < 0 or high >= classes:
            refuse_class(low if low < 0 else high, classes)
    return own


def grid_of(index: Array, axis: int) -> tuple[Array, ...]:
    """Return a NumPy index of all axes for the elements at `index`, a private copy, along axis."""
    return tuple(
        index if i == axis else np.arange(n).reshape((-1,) + (1,) * (index.ndim - 1 - i))
        for i, n in enumerate(index.shape)
    )


def with_axes(*arrays: Array) -> list[Array]:
    """Return arrays, with 0-d arrays reshaped to vectors of one element."""
    return [array if array.ndim else array.reshape(1) for array in arrays]


def as_bits(x: Array) -> Array:
    """Return x in a dtype for which loops are compiled: half types and bool become integers."""
    if x.dtype in WIDE:
        return x.view(np.int16)
    return x.view(np.uint8) if x.dtype == np.bool_ else x
