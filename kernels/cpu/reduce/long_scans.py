"""Cumulative extremes and linear recurrences of many elements, by the loops of scan_loops.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..jit.kernel_cache import Loops

Array = np.ndarray[Any, Any]
_loops = Loops("reduce.scan_loops")


def _lines(x: Array, axis: int) -> Array:
    """Return x as (outer, length, inner), contiguous."""
    x = np.ascontiguousarray(x)
    axis %= x.ndim
    inner = int(np.prod(x.shape[axis + 1 :], dtype=np.int64))
    return x.reshape(-1, x.shape[axis], inner)


def extremes(x: Array, values: Array, indices: Array, axis: int, largest: bool) -> None:
    """Write the cumulative extremes of x along axis, as scan.cummax defines them."""
    lines = _lines(x, axis)
    found, places = np.empty(lines.shape, lines.dtype), np.empty(lines.shape, np.int64)
    _loops.extremes(lines, found, places, largest)
    np.copyto(values, found.reshape(values.shape), casting="unsafe")
    np.copyto(indices, places.reshape(indices.shape))


def recurrence(factor: Array, x: Array, values: Array, axis: int, backwards: bool) -> None:
    """Write the linear recurrence of scan.recurrence along axis into values."""
    lines = _lines(x, axis)
    found = np.empty(lines.shape, lines.dtype)
    _loops.recurrence(_lines(factor, axis), lines, found, backwards)
    np.copyto(values, found.reshape(values.shape), casting="unsafe")
