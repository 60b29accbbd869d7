"""Checked versions of NumPy calls that overflow when the number of elements is too large."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from .errors import ShapeError

Array = np.ndarray[Any, Any]
# This many numbers of eight bytes exceed the address space.
_TOO_MANY: Final = 1 << 60


def require_countable(count: float) -> None:
    """Raise ShapeError if no address space can hold this many numbers."""
    if count >= _TOO_MANY:
        shown = count if isinstance(count, int) else f"{count:g}"
        raise ShapeError(f"Storage size calculation overflowed with sizes=[{shown}]")


def count_up(start: int, end: int, dtype: Any = np.int64) -> Array:
    """Return np.arange(start, end), but raise ShapeError for too many numbers. NumPy would return
    an empty array for about 2**63 - 512 numbers or more.
    """
    require_countable(end - start)
    return np.arange(start, end, dtype=dtype)


def repeat_each(values: Array, times: Array) -> Array:
    """Return np.repeat(values, times), but raise ShapeError for too many numbers. If the sum of
    `times` overflows, NumPy writes out of bounds.
    """
    require_countable(float(times.sum(dtype=np.float64)))
    return np.repeat(values, times)
