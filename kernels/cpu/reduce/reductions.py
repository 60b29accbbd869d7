"""Reductions over axes, on the CPU.

`out` has x's shape without the reduced axes.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..silence import silent
from .sums import add_up, log_of_total

Array = np.ndarray[Any, Any]
Axes = tuple[int, ...]
# Up to this many numbers, variances are computed in float64, which is as fast as float32.
_FEW = 4096


@silent
def sum(x: Array, out: Array, axes: Axes) -> None:
    """Write the sums of x over axes into out.

    Terms are added in out's dtype, pairwise or in parts (see add_up), in the same order for any
    number of threads.
    """
    add_up(x, axes, dtype=out.dtype, out=out)


@silent
def mean(x: Array, out: Array, axes: Axes) -> None:
    """Write the means of x over axes into out; NaN if there are no elements."""
    n = math.prod([x.shape[axis] for axis in axes])
    total = np.asarray(add_up(x, axes, dtype=x.dtype))
    np.divide(total, n, out=out, casting="unsafe")


@silent
def prod(x: Array, out: Array, axes: Axes) -> None:
    """Write the products of x over axes into out; 1 if there are no elements."""
    np.copyto(out, np.multiply.reduce(x, axis=axes, dtype=x.dtype), casting="unsafe")


@silent
def amax(x: Array, out: Array, axes: Axes | None) -> None:
    """Write the largest elements over axes into out, or that of the whole x if axes is None. A
    result is NaN if one of its elements is NaN.
    """
    np.copyto(out, np.maximum.reduce(x, axis=axes))


@silent
def amin(x: Array, out: Array, axes: Axes | None) -> None:
    """Write the smallest elements over axes into out, or that of the whole x if axes is None. A
    result is NaN if one of its elements is NaN.
    """
    np.copyto(out, np.minimum.reduce(x, axis=axes))


@silent
def all(x: Array, out: Array, axes: Axes) -> None:
    """Write into out, which is bool or uint8, whether all elements over axes are nonzero."""
    np.copyto(out, np.logical_and.reduce(x, axis=axes), casting="unsafe")


@silent
def any(x: Array, out: Array, axes: Axes) -> None:
    """Write into out, which is bool or uint8, whether any element over axes is nonzero."""
    np.copyto(out, np.logical_or.reduce(x, axis=axes), casting="unsafe")


@silent
def count_nonzero(x: Array, out: Array, axes: Axes) -> None:
    """Write into out, which is int64, the number of nonzero elements over axes."""
    np.add.reduce(np.not_equal(x, 0), axis=axes, dtype=np.int64, out=out)


@silent
def _squares(x: Array, axes: Axes, n: int) -> Array:
    """Return the sums over axes of squared deviations from the means."""
    away = np.asarray(np.subtract(x, np.divide(add_up(x, axes, keepdims=True), n)))
    # In float32 the rounding error of the mean may exceed the deviations. The sum of the deviations
    # corrects for this error.
    rest = None if x.dtype == np.float64 else add_up(away, axes)
    total = np.asarray(add_up(np.square(away, away), axes))
    if rest is not None:
        np.maximum(total - rest * (rest / n), 0.0, total)  # np.maximum keeps NaN
    return total


@silent
def _deviate(x: Array, axes: Axes, correction: float) -> Array:
    """Return the variances over axes; in float64 if x has few elements, or very large ones."""
    n = math.prod([x.shape[axis] for axis in axes])
    total = _squares(x.astype(np.float64) if x.size <= _FEW else x, axes, n)
    # The sum of squares may overflow where the variance does not. If there is a NaN, argmax returns
    # its index.
    if total.size and total.dtype != np.float64 and not total.item(total.argmax()) < math.inf:
        total = _squares(x.astype(np.float64), axes, n)
    return np.divide(total, max(n - correction, 0.0), total)


@silent
def var(x: Array, out: Array, axes: Axes, correction: float) -> None:
    """Write the sums over axes of squared deviations, divided by max(n - correction, 0)."""
    np.copyto(out, _deviate(x, axes, correction), casting="unsafe")


@silent
def std(x: Array, out: Array, axes: Axes, correction: float) -> None:
    """Write the standard deviations, the square roots of `var`, into out."""
    np.sqrt(_deviate(x, axes, correction), out=out, casting="unsafe")


@silent
def logsumexp(x: Array, out: Array, axes: Axes) -> None:
    """Write log(sum(exp(x))) over axes into out, shifted by the maximum; -inf if there are no
    elements.
    """
    if math.prod([x.shape[axis] for axis in axes]) == 0:
        out.fill(-np.inf)
        return
    top = np.maximum.reduce(x, axis=axes, keepdims=True)
    # An infinite maximum is the result. It is not subtracted from x, because inf - inf is NaN.
    shift = np.where(np.isinf(top), np.zeros_like(top), top)
    powers = np.exp(np.subtract(x, shift))
    found = log_of_total(powers, add_up(powers, axes), axes)
    np.add(found, shift.reshape(out.shape), out=out, casting="unsafe")


@silent
def norm(x: Array, out: Array, axes: Axes, order: float) -> None:
    """Write (sum of |x|**order)**(1/order) over axes into out. Order 0 counts nonzero elements; inf
    and -inf give the largest and the smallest |x|. The norm of one element is |x|: its powers would
    underflow or overflow.
    """
    if order and x.size == out.size:
        np.copyto(out, np.abs(x).reshape(out.shape), casting="unsafe")
        return
    if order == 2.0:
        np.sqrt(add_up(np.square(x), axes), out=out, casting="unsafe")
        return
    size = np.abs(x)
    if order == math.inf:
        total = np.maximum.reduce(size, axis=axes, initial=0.0 if size.size == 0 else None)
    elif order == -math.inf:
        total = np.minimum.reduce(size, axis=axes)
    elif order == 0.0:
        total = add_up(np.not_equal(size, 0), axes, dtype=size.dtype)
    elif order == 1.0:
        total = add_up(size, axes)
    else:
        total = np.power(add_up(np.power(size, order), axes), 1.0 / order)
    np.copyto(out, total, casting="unsafe")


@silent
def argmax(x: Array, out: Array, axis: int | None) -> None:
    """Write the first index of the largest x along axis, or in the flattened x; NaN is largest."""
    np.copyto(out, np.argmax(x, axis=axis).reshape(out.shape))


@silent
def argmin(x: Array, out: Array, axis: int | None) -> None:
    """Write the first index of the smallest x along axis, or in the flattened x; NaN is
    smallest.
    """
    np.copyto(out, np.argmin(x, axis=axis).reshape(out.shape))


def _pick(x: Array, where: Array, out: Array, indices: Array, axis: int) -> None:
    np.copyto(indices, where)
    if x.ndim == 0:
        np.copyto(out, x)
        return
    found = np.take_along_axis(x, np.expand_dims(where, axis), axis)
    np.copyto(out, found.reshape(out.shape))


@silent
def max_along(x: Array, out: Array, indices: Array, axis: int) -> None:
    """Write the largest x along axis into out, and its first index into indices; NaN is largest."""
    _pick(x, np.asarray(np.argmax(x, axis=axis)), out, indices, axis)


@silent
def min_along(x: Array, out: Array, indices: Array, axis: int) -> None:
    """Write the smallest x along axis into out, and its first index into indices; NaN is
    smallest.
    """
    _pick(x, np.asarray(np.argmin(x, axis=axis)), out, indices, axis)
