"""Cumulative sums, products, log-sums and extremes, and linear recurrences, on the CPU."""

from __future__ import annotations

from itertools import accumulate
from typing import Any, Final

import numpy as np

from ..jit.background import is_numpys_turn
from ..silence import silent
from . import long_scans

Array = np.ndarray[Any, Any]


# The number of elements that are computed in float64 at a time: they stay in the L2 cache.
_PIECE: Final = 1 << 14
# Up to this many terms are accumulated in float32, which takes a third of the time of float64.
_IN_TURN: Final = 128


@silent
def _at_once(ufunc: np.ufunc, x: Array, out: Array, axis: int) -> None:
    ufunc.accumulate(x, axis, dtype=out.dtype, out=out)


@silent
def _block(ufunc: np.ufunc, x: Array, out: Array, axis: int) -> None:
    wide = x.astype(np.float64)
    ufunc.accumulate(wide, axis, out=wide)
    np.copyto(out, wide, casting="unsafe")


@silent
def _pieces(ufunc: np.ufunc, x: Array, out: Array) -> None:
    """Accumulate along the first axis, one piece after the other, in a wider dtype."""
    step = max(_PIECE // max(x[:1].size, 1), 1)
    last = None
    for start in range(0, len(x), step):
        wide = x[start : start + step].astype(np.float64)
        first = wide[0, ...]  # [0, ...] gives a view even if x has one axis
        if last is not None:
            ufunc(first, last, out=first)
        ufunc.accumulate(wide, 0, out=wide)
        np.copyto(out[start : start + step], wide, casting="unsafe")
        last = wide[-1, ...]


def _accumulate(ufunc: np.ufunc, x: Array, out: Array, axis: int) -> None:
    if x.ndim == 0:
        np.copyto(out, x)
    elif (
        out.dtype.itemsize == 8
        or out.dtype.kind != "f"
        or (out.dtype.itemsize == 4 and x.shape[axis] <= _IN_TURN)
    ):
        _at_once(ufunc, x, out, axis)
    elif axis % x.ndim == 0:
        _pieces(ufunc, x, out)
    elif x.size:
        axis = axis % x.ndim
        rows = _PIECE // x[0].size
        for start in range(0, len(x), max(rows, 1)):
            if rows > 1:
                part = slice(start, start + rows)
                _block(ufunc, x[part], out[part], axis)
            else:
                _accumulate(ufunc, x[start], out[start], axis - 1)


def cumsum(x: Array, out: Array, axis: int) -> None:
    """Write the sums of x[..., :k + 1, ...] along axis into out. Floating numbers are added in
    float64 and rounded once; up to 128 float32 are added in float32.
    """
    _accumulate(np.add, x, out, axis)


def cumprod(x: Array, out: Array, axis: int) -> None:
    """Write the products of x[..., :k + 1, ...] along axis into out. Floating numbers are
    multiplied in float64 and rounded once; up to 128 float32 are multiplied in float32.
    """
    _accumulate(np.multiply, x, out, axis)


def logcumsumexp(x: Array, out: Array, axis: int) -> None:
    """Write log(sum(exp(x[..., :k + 1, ...]))) along axis into out, in the dtypes of `cumsum`."""
    _accumulate(np.logaddexp, x, out, axis)


def cummax(x: Array, out: Array, indices: Array, axis: int) -> None:
    """Write the largest of x[..., :k + 1, ...] along axis into out, and its index into indices: the
    last one among equals. From the first NaN on, the results are NaN.
    """
    _extremes(x, out, indices, axis, largest=True)


def cummin(x: Array, out: Array, indices: Array, axis: int) -> None:
    """Write the smallest of x[..., :k + 1, ...] along axis into out, and its index into indices:
    the last one among equals. From the first NaN on, the results are NaN.
    """
    _extremes(x, out, indices, axis, largest=False)


# From this many elements on, the compiled loops are worth importing Numba.
_MANY: Final = 1 << 14


# Each function below compiles a loop by calling it once with small arrays of the given dtypes.
def _compile_extremes(dtype: Any) -> None:
    one = np.zeros((1, 1), dtype)
    long_scans.extremes(one, one.copy(), np.zeros((1, 1), np.int64), 0, largest=True)


def _compile_recurrence(factor: Any, x: Any) -> None:
    one = np.zeros((1, 1), x)
    long_scans.recurrence(np.zeros((1, 1), factor), one, one.copy(), 0, False)


@silent
def _extremes(x: Array, out: Array, indices: Array, axis: int, *, largest: bool) -> None:
    if x.ndim == 0:
        np.copyto(out, x)
        indices.fill(0)
    elif x.size >= _MANY and not is_numpys_turn(_compile_extremes, x.dtype):
        long_scans.extremes(x, out, indices, axis, largest=largest)
    else:
        # The index of an extreme is the largest index so far at which x is NaN or equals the
        # cumulative result.
        (np.maximum if largest else np.minimum).accumulate(x, axis, out=out)
        column = [1] * x.ndim
        column[axis] = -1
        places = np.arange(x.shape[axis]).reshape(column)
        np.maximum.accumulate(np.where((x == out) | (x != x), places, 0), axis, out=indices)


# Up to this many rows, Python's numbers are faster than NumPy: a Python step of one row takes a
# twentieth of the time of a NumPy step over all rows. At this limit, Python and NumPy take the same
# time (20,000 steps, one core of an AMD EPYC, Zen 4). Both compute in float64.
_FEW_ROWS: Final = 24


@silent
def _all_rows(factor: Array, x: Array, out: Array) -> None:
    # [0, ...] gives an array even if x has one axis; [0] would give a number.
    y = x[0, ...].astype(np.complex128 if x.dtype.kind == "c" else np.float64)
    np.copyto(out[0, ...], y, casting="unsafe")
    for k in range(1, len(x)):
        np.multiply(y, factor[k - 1], out=y)
        np.add(y, x[k], out=y)
        np.copyto(out[k, ...], y, casting="unsafe")


@silent
def _one_row(factor: Array, x: Array, out: Array) -> None:
    y = float(x[0])
    out[0] = y
    for start in range(1, len(x), _PIECE):
        piece = slice(start, start + _PIECE)
        steps = zip(factor[start - 1 : start - 1 + _PIECE].tolist(), x[piece].tolist(), strict=True)
        values = list(accumulate(steps, lambda y, step: y * step[0] + step[1], initial=y))
        out[piece] = values[1:]
        y = values[-1]


@silent
def recurrence(factor: Array, x: Array, out: Array, axis: int, backwards: bool) -> None:
    """Write y into out, where y[k] = factor[k] * y[k - 1] + x[k] along axis, beginning with y[0] =
    x[0]. If backwards, y[k] = factor[k + 1] * y[k + 1] + x[k], beginning at the end.

    All arrays have one shape. y is computed in float64 or complex128, and rounded once.
    """
    if not x.size:
        return
    if x.ndim == 0:
        np.copyto(out, x)
        return
    is_complex = x.dtype.kind == "c"
    is_many = x.size >= _MANY and not is_complex
    if is_many and not is_numpys_turn(_compile_recurrence, factor.dtype, x.dtype):
        long_scans.recurrence(factor, x, out, axis, backwards)
        return
    factor, x, out = [np.moveaxis(array, axis, 0) for array in (factor, x, out)]
    if backwards:
        factor, x, out = factor[::-1][:-1], x[::-1], out[::-1]
    else:
        factor = factor[1:]
    if x[0].size > _FEW_ROWS or is_complex:
        _all_rows(factor, x, out)
        return
    for row in np.ndindex(x.shape[1:]):
        _one_row(*[array[:, *row] for array in (factor, x, out)])
