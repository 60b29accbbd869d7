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


class OutOfBounds(ShapeError, IndexError):
    """A place that an axis does not have: an IndexError to Python, a RuntimeError to PyTorch."""


def require_inside(index: Array, length: int, axis: int) -> None:
    """Raise OutOfBounds if index names what an axis of a length does not have."""
    if index.size and (index.min() < 0 or index.max() >= length):
        worst = int(index.min() if index.min() < 0 else index.max())
        raise OutOfBounds(f"index {worst} is out of bounds for dimension {axis} with size {length}")


def grid_of(index: Array, axis: int) -> tuple[Array, ...]:
    """Return index along axis as a NumPy index over all axes."""
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
