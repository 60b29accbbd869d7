"""Ranges of numbers after rounding to a dtype."""

from __future__ import annotations

import functools

import numpy as np

from ..core.dtypes import DType, bool_, float_limits


def largest_of(dtype: DType) -> float:
    """Return the largest finite number of dtype; an int for integer dtypes."""
    if dtype.is_floating_point:
        return float(float_limits(dtype).max)
    return 1 if dtype is bool_ else int(np.iinfo(dtype.numpy).max)


def largest_whole(dtype: DType) -> int:
    """Return the largest n for which dtype holds all integers from 0 to n."""
    if dtype.is_floating_point:
        return 1 << int(float_limits(dtype).nmant) + 1
    return int(largest_of(dtype))


def ends_inside(dtype: DType, low: float, high: float) -> tuple[float, float]:
    """Return the smallest and the largest number of a floating dtype in [low, high). If there is no
    such number, both results are `low` rounded to the dtype.
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
    """Return whether scale * u + start, computed in dtype for u in [0, 1), may be rounded to a
    number outside of [start, end).
    """
    kind = dtype.numpy.type
    with np.errstate(all="ignore"):
        last = kind(1) - kind(float_limits(dtype).epsneg)
        least, most = (float(kind(u * kind(scale)) + kind(start)) for u in (kind(0), last))
    return not (least >= start and most < end)
