"""An index along one axis, what an axis does not have, and elements that are only moved."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from fastdist.core.dtypes import WIDE
from fastdist.core.errors import ShapeError

Array = np.ndarray[Any, Any]
# From so many elements on a compiled loop does it: 256 rows of 64 float32 are added in 33 us on one
# core, by np.add.at in 280.
MANY: Final = 4096
# The report of a compiled loop that met no index outside: see Note [Indices that change] in
# bounds.py.
INSIDE: Final = 0
# Copied for a loop on several threads, which writes there what it would return.
ALL_INSIDE: Final = np.full(1, INSIDE)


class OutOfBounds(ShapeError, IndexError):
    """A place that an axis does not have: an IndexError to Python, a RuntimeError to PyTorch."""


def refuse(index: int, length: int, axis: int) -> Any:
    """Raise OutOfBounds for an index that an axis of a length does not have."""
    raise OutOfBounds(f"index {index} is out of bounds for dimension {axis} with size {length}")


def ends(index: Array) -> tuple[int, int]:
    """Return the smallest and the largest of index, which has some and lies in C order or is small:
    in a quarter of the time of min and max, which go through Python.
    """
    return index.item(index.argmin()), index.item(index.argmax())


def require_inside(index: Array, length: int, axis: int) -> None:
    """Raise OutOfBounds if index names what an axis of a length does not have."""
    if index.size:
        low, high = ends(index)
        if low < 0 or high >= length:
            refuse(low if low < 0 else high, length, axis)


def own_copy(index: Array, length: int, axis: int) -> Array:
    """Return a private copy of index, for NumPy's loops, which do not check what they read.

    Raises  OutOfBounds if it names what an axis of a length does not have
    """
    own = index.copy()
    require_inside(own, length, axis)
    return own


def refuse_class(found: int, classes: int) -> Any:
    """Raise OutOfBounds for a class that there is not among so many."""
    raise OutOfBounds(
        f"Target {found} is out of bounds. There are {classes} classes, 0 to {classes - 1}"
    )


def own_classes(target: Array, classes: int) -> Array:
    """Return a private copy of classes, for NumPy's loops.

    Raises  OutOfBounds for one that there is not among so many
    """
    own = target.copy()
    if own.size:
        low, high = ends(own)
        if low < 0 or high >= classes:
            refuse_class(low if low < 0 else high, classes)
    return own


def grid_of(index: Array, axis: int) -> tuple[Array, ...]:
    """Return index along axis, a private copy, as a NumPy index over all axes."""
    return tuple(
        index if i == axis else np.arange(n).reshape((-1,) + (1,) * (index.ndim - 1 - i))
        for i, n in enumerate(index.shape)
    )


def with_axes(*arrays: Array) -> list[Array]:
    """Return arrays, those without axes seen as vectors of one element."""
    return [array if array.ndim else array.reshape(1) for array in arrays]


def as_bits(x: Array) -> Array:
    """Return x with numbers that no loop has seen as integers of as many bits."""
    if x.dtype in WIDE:
        return x.view(np.int16)
    return x.view(np.uint8) if x.dtype == np.bool_ else x
