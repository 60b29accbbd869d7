"""Averages of windows along rows, and their adjoint (avg_pool), on the CPU.

`window` is (kernel, stride, padding). Output i is the average of x[first] to x[first + kernel - 1],
with first = i * stride - padding; elements outside of x count as 0. The divisor is the number of
elements of the window that are in the row, or, with `whole`, in the row or its padding.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ..jit.background import is_numpys_turn
from ..jit.kernel_cache import Loops
from ..silence import silent
from .segment_sums import sums_between

Array = np.ndarray[Any, Any]
_loops = Loops("nn.average_loops")
Window = tuple[int, int, int]


def _compile(name: str, dtype: Any) -> None:
    one = np.ones((1, 1), dtype)
    if name == "average":
        _loops.average(one, one.copy(), one[0], (1, 1, 0), dtype.kind != "f")
    else:
        _loops.spread(one, one.copy(), one[0], (1, 1, 0))


def _rows(x: Array) -> Array:
    return np.ascontiguousarray(x).reshape(int(np.prod(x.shape[:-1])), x.shape[-1])


@functools.lru_cache(maxsize=64)
def _counts(length: int, outputs: int, window: Window, whole: bool, dtype: Any) -> Array:
    """Return the divisors of the windows' sums."""
    kernel, stride, padding = window
    first = np.arange(outputs) * stride - padding
    end = np.minimum(first + kernel, length + padding)
    if not whole:
        first, end = np.maximum(first, 0), np.minimum(end, length)
    return (end - first).astype(dtype)


@silent
def average(x: Array, out: Array, window: Window, whole: bool) -> None:
    """Write the averages of windows along x's last axis into out; averages of integers are
    truncated.
    """
    counts = _counts(x.shape[-1], out.shape[-1], window, whole, x.dtype)
    of_integers = x.dtype.kind != "f"
    if not is_numpys_turn(_compile, "average", x.dtype):
        _loops.average(_rows(x), _rows(out), counts, window, of_integers)
        return
    kernel, stride, padding = window
    first = np.arange(out.shape[-1]) * stride - padding
    sums = sums_between(x, first, first + kernel, x.ndim - 1)
    if of_integers:
        quotient = sums // counts
        np.add(quotient, (sums < 0) & (quotient * counts != sums), out=out, casting="unsafe")
    else:
        np.divide(sums, counts, out=out)


@silent
def spread(x: Array, out: Array, window: Window, whole: bool) -> None:
    """Write the adjoint of `average` into out: each position gets the sum of its shares of all
    windows that contain the position.
    """
    counts = _counts(out.shape[-1], x.shape[-1], window, whole, x.dtype)
    if not is_numpys_turn(_compile, "spread", x.dtype):
        _loops.spread(_rows(x), _rows(out), counts, window)
        return
    kernel, stride, padding = window
    # The windows that contain a position are consecutive.
    place = np.arange(out.shape[-1]) + padding
    first, end = -((kernel - 1 - place) // stride), place // stride + 1
    np.copyto(out, sums_between(x / counts, first, end, x.ndim - 1))
