"""The taps (source elements and weights) of each output when an axis is interpolated.

Taps are computed as in PyTorch, operation by operation and in the same dtype: float32 for images
of float32 and smaller dtypes. Otherwise an index that is rounded down could differ by one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from .weighted_neighbours import Taps, makes_taps

Array = np.ndarray[Any, Any]


def _scale(length: int, count: int, factor: float | None, align: bool, real: Any) -> Any:
    """Return the distance between neighbouring outputs, in units of input elements."""
    if align:
        return real(length - 1) / real(count - 1) if count > 1 else real(0)
    if factor is not None and factor > 0:
        return real(1.0 / factor)
    return real(length) / real(count)


def _sources(length: int, count: int, factor: float | None, align: bool, real: Any) -> Array:
    """Return the positions of outputs, in units of input elements."""
    scale = _scale(length, count, factor, align, real)
    i: Array = np.arange(count).astype(real)
    if align:
        return np.asarray(scale * i)
    return _fused(scale, i + real(0.5), -0.5)


def _taps(places: Array, weights: Array) -> Taps:
    """Return the Taps for arrays of shape (outputs, taps per output)."""
    count, each = places.shape
    return Taps(np.arange(count + 1) * each, places.ravel().astype(np.int64), weights.ravel())


# Note [Nearest neighbours of small images]
# PyTorch has two kernels for nearest neighbours in two dimensions. PyTorch uses one of them if
# height and width of the result add up to at most 128. This kernel always computes indices in
# float32. If a length stays the same or doubles, it computes indices by integer division.
# `small` selects the computation of this kernel.


@makes_taps
def nearest(length: int, count: int, factor: float | None, small: bool, dtype: str) -> Taps:
    """Return the element at or before the position of each output."""
    i = np.arange(count)
    if small and count in (length, 2 * length):
        place = i // (count // length)
    else:
        real = np.float32 if small else np.dtype(dtype).type
        scaled = _scale(length, count, factor, False, real) * i.astype(real)
        place = np.floor(scaled.astype(np.float32)).astype(np.int64)
    return _taps(np.minimum(place, length - 1)[:, None], np.ones((count, 1)))


@makes_taps
def nearest_exact(length: int, count: int, factor: float | None, small: bool, dtype: str) -> Taps:
    """Return the element nearest to the center of each output."""
    if small:
        middle = np.arange(count).astype(np.float32) + np.float32(0.5)
        source = middle * _scale(length, count, factor, False, np.float32)
    else:
        real = np.dtype(dtype).type
        source = np.maximum(_sources(length, count, factor, False, real), real(0)) + real(0.5)
    place = np.floor(source.astype(np.float32)).astype(np.int64)
    return _taps(np.minimum(place, length - 1)[:, None], np.ones((count, 1)))


@makes_taps
def linear(length: int, count: int, factor: float | None, align: bool, dtype: str) -> Taps:
    """Return the two elements around each output, weighted by proximity."""
    real = np.dtype(dtype).type
    if length == count:
        return _taps(np.arange(count)[:, None], np.ones((count, 1)))
    source = np.maximum(_sources(length, count, factor, align, real), real(0))
    first = np.minimum(np.floor(source).astype(np.int64), length - 1)
    weight = np.clip(source - first.astype(real), real(0), real(1))
    places = np.stack([first, np.minimum(first + 1, length - 1)], 1)
    return _taps(places, np.stack([real(1) - weight, weight], 1))


@makes_taps
def cubic(length: int, count: int, factor: float | None, align: bool, dtype: str) -> Taps:
    """Return the four elements around each output, weighted by Keys's cubic kernel. The border
    element replaces elements outside of the image.
    """
    real = np.dtype(dtype).type
    source = _sources(length, count, factor, align, real)
    first = np.minimum(np.floor(source).astype(np.int64), length - 1)
    t = np.clip(source - first.astype(real), real(0), real(1))
    distances = np.stack([t + real(1), t, real(1) - t, real(2) - t], 1)
    places = np.clip(first[:, None] + np.arange(-1, 3), 0, length - 1)
    return _taps(places, _keys(distances, -0.75))


def _fused(a: Any, b: Any, c: float) -> Array:
    """Return a * b + c rounded once, as by a fused multiply-add instruction."""
    real = np.asarray(b).dtype
    wide = np.longdouble if real == np.float64 else np.float64
    found: Array = (np.asarray(a, real).astype(wide) * b + wide(c)).astype(real)
    return found


def _keys(x: Array, a: float) -> Array:
    """Return Keys's cubic kernel at the given distances."""
    x = np.abs(x)
    near = _fused(_fused(a + 2, x, -(a + 3)) * x, x, 1)
    far = _fused(_fused(_fused(a, x, -5 * a), x, 8 * a), x, -4 * a)
    return np.where(x < 1, near, np.where(x < 2, far, 0)).astype(x.dtype)


def _triangle(x: Array) -> Array:
    return np.asarray(np.maximum(1 - np.abs(x), 0), x.dtype)


def _lanczos(x: Array) -> Array:
    return np.where(np.abs(x) < 3, np.sinc(x) * np.sinc(x / 3), 0).astype(x.dtype)


# Filters by mode: the function, and the number of elements that it covers if the axis does not
# shrink.
_FILTERS: Final[dict[str, tuple[Callable[[Array], Array], int]]] = {
    "bilinear": (_triangle, 2),
    "bicubic": (lambda x: _keys(x, -0.5), 4),
    "lanczos": (_lanczos, 6),
}


@makes_taps
def filtered(
    length: int, count: int, factor: float | None, align: bool, mode: str, dtype: str
) -> Taps:
    """Return the elements that a filter covers, for antialias=True. If the axis shrinks by some
    factor, the filter is widened by the same factor.
    """
    real = np.dtype(dtype).type
    if length == count:
        return _taps(np.arange(count)[:, None], np.ones((count, 1)))
    weigh, covers = _FILTERS[mode]
    scale = _scale(length, count, factor, align, real)
    wider = scale >= 1
    support = real(covers * 0.5) * scale if wider else real(covers * 0.5)
    center = scale * (np.arange(count).astype(real) + real(0.5))
    first = np.maximum((center - support + real(0.5)).astype(np.int64), 0)
    end = np.minimum((center + support + real(0.5)).astype(np.int64), length)
    most = math.ceil(support) * 2 + 1
    sizes = np.clip(end - first, 0, most)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    places = np.arange(starts[-1]) + np.repeat(first - starts[:-1], sizes)
    middle = np.repeat(center, sizes)
    inverse = real(1) / scale if wider else real(1)
    weights = weigh((places.astype(real) - middle + real(0.5)) * inverse)
    totals = np.add.reduceat(weights, starts[:-1]) if len(weights) else weights
    totals = np.where(totals == 0, 1, totals).astype(real)
    return Taps(starts, places, weights / np.repeat(totals, sizes))
