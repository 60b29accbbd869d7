"""Running sums and products and linear recurrences, on the CPU."""

from __future__ import annotations

from itertools import accumulate
from typing import Any, Final

import numpy as np

from .silence import silent

Array = np.ndarray[Any, Any]


def cumsum(x: Array, out: Array, axis: int) -> None:
    """Write the sums of x[..., :k + 1, ...] along axis into out; float16 adds in float32."""
    _accumulate(np.add, x, out, axis)


def cumprod(x: Array, out: Array, axis: int) -> None:
    """Write the products of x[..., :k + 1, ...] along axis into out; float16 computes in
    float32.
    """
    _accumulate(np.multiply, x, out, axis)


@silent
def _accumulate(ufunc: np.ufunc, x: Array, out: Array, axis: int) -> None:
    if x.ndim == 0:
        np.copyto(out, x)
    elif x.dtype == np.float16:
        np.copyto(out, ufunc.accumulate(x, axis, dtype=np.float32), casting="unsafe")
    else:
        ufunc.accumulate(x, axis, dtype=out.dtype, out=out)


# Up to so many rows Python's own numbers are the faster side: a step of one row takes a twentieth
# of what NumPy takes for a step of all rows. The sides meet here (20,000 steps, one core of an AMD
# EPYC, Zen 4). Both compute in float64.
_FEW_ROWS: Final = 24
# Elements of a row that are Python's numbers at a time, so that memory stays that of the arrays.
_PIECE: Final = 1 << 14


@silent
def _all_rows(factor: Array, x: Array, out: Array) -> None:
    y = x[0].astype(np.float64)
    np.copyto(out[0], y, casting="unsafe")
    for k in range(1, len(x)):
        np.multiply(y, factor[k - 1], out=y)
        np.add(y, x[k], out=y)
        np.copyto(out[k], y, casting="unsafe")


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
    """Write y of y[k] = factor[k] * y[k - 1] + x[k] along axis into out, beginning with x[0];
    backwards of y[k] = factor[k + 1] * y[k + 1] + x[k], beginning at the end.

    All of one shape. Computes in float64 and rounds once.
    """
    if not x.size:
        return
    if x.ndim == 0:
        np.copyto(out, x)
        return
    factor, x, out = [np.moveaxis(array, axis, 0) for array in (factor, x, out)]
    if backwards:
        factor, x, out = factor[::-1][:-1], x[::-1], out[::-1]
    else:
        factor = factor[1:]
    if x[0].size > _FEW_ROWS:
        _all_rows(factor, x, out)
        return
    for row in np.ndindex(x.shape[1:]):
        _one_row(*[array[:, *row] for array in (factor, x, out)])
