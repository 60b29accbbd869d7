"""Sums of segments of an axis by NumPy, used while the compiled loops are not available."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..silence import silent

Array = np.ndarray[Any, Any]


@silent
def sums_between(x: Array, first: Array, end: Array, axis: int) -> Array:
    """Return the sums of x[first[i]:end[i]] along `axis`, in x's dtype, with the bounds clipped."""
    length = x.shape[axis]
    first, end = np.clip(first, 0, length), np.clip(end, 0, length)
    x = np.moveaxis(x, axis, 0)
    # reduceat rejects an index that equals the length, so one zero is appended. Every second sum of
    # reduceat belongs to the gap between two segments, and is dropped.
    longer = np.concatenate([x, np.zeros((1, *x.shape[1:]), x.dtype)])
    sums = np.add.reduceat(longer, np.stack([first, end], 1).reshape(-1), 0, x.dtype)[::2]
    sums[first >= end] = 0
    return np.moveaxis(sums, 0, axis)
