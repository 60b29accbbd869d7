"""Ranges of numbers after rounding: what a dtype holds, and what of it lies in a range."""

from __future__ import annotations

import functools

import numpy as np

from ..core.dtypes import DType, bool_, float_limits


def largest_of(dtype: DType) -> float:
    """Return the largest finite number of dtype, an integer where dtype is not floating."""
    if dtype.is_floating_point:
        return float(float_limits(dtype).max)
    return 1 if dtype is bool_ else int(np.iinfo(dtype.numpy).max)


def largest_whole(dtype: DType) -> int:
    """Return up to where dtype holds every whole number."""
    if dtype.is_floating_point:
        return 1 << int(float_limits(dtype).nmant) + 1
    return int(largest_of(dtype))


def ends_inside(dtype: DType, low: float, high: float) -> tuple[float, float]:
    """Return the least and the greatest number of a floating dtype in [low, high); low, rounded, as
    both where there is none.
    """
    kind = dtype.numpy.type
    least, most = kind(low), kind(high)
    if float(least) < low:
        least = np.nextafter(least, kind(np.inf))
    if float(most) >= high:
        most = np.nextafter(most, kind(-np.inf))
    if not float(least) <= float(most):
        return float(kind(low)), float(kind(low))
    return float(least), float(most)


@functools.lru_cache(maxsize=256)
def may_leave(dtype: DType, scale: float, start: float, end: float) -> bool:
    """Return whether a number in [0, 1), scaled and moved in dtype, may be rounded out of
    [start, end).
    """
    kind = dtype.numpy.type
    with np.errstate(all="ignore"):
        last = kind(1) - kind(float_limits(dtype).epsneg)
        least, most = (float(kind(u * kind(scale)) + kind(start)) for u in (kind(0), last))
    return not (least >= start and most < end)
