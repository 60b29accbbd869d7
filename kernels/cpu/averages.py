"""Averages of windows along rows, and their adjoint, on the CPU.

`window` is (kernel, stride, padding): output i is made of x[first] to x[first + kernel - 1], first
being i * stride - padding, of which what lies outside counts as 0. It is divided by how many of
them lie in the row, and with `whole` also in its padding.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from .compiler import compiled

Array = np.ndarray[Any, Any]
Window = tuple[int, int, int]


# Bound by memory where windows are small: a row of sums stays in the first-level cache while each
# place in the window is added to all of it, neighbours at once.
@compiled()
def _average(x: Any, out: Any, counts: Any, window: Any, of_integers: bool) -> None:
    kernel, stride, padding = window
    length, outputs = x.shape[1], out.shape[1]
    for r in range(x.shape[0]):
        row, sums = x[r], out[r]
        sums[:] = 0
        # Of the window what meets the row: the rest of a huge one lies in its padding.
        for k in range(max(padding - (outputs - 1) * stride, 0), min(kernel, padding + length)):
            shift = k - padding
            begin = max((stride - 1 - shift) // stride, 0)
            for i in range(begin, min((length - 1 - shift) // stride + 1, outputs)):
                sums[i] += row[i * stride + shift]
        if of_integers:
            for i in range(outputs):
                quotient = sums[i] // counts[i]  # which floors, where C cuts off
                sums[i] = quotient + (sums[i] < 0 and quotient * counts[i] != sums[i])
        else:
            for i in range(outputs):
                sums[i] /= counts[i]


@compiled()
def _spread(x: Any, out: Any, counts: Any, window: Any) -> None:
    kernel, stride, padding = window
    outputs, length = x.shape[1], out.shape[1]
    shares = np.empty(outputs, x.dtype)
    for r in range(x.shape[0]):
        row, sums = x[r], out[r]
        for i in range(outputs):
            shares[i] = row[i] / counts[i]
        sums[:] = 0
        # Of the window what meets the row: the rest of a huge one lies in its padding.
        for k in range(max(padding - (outputs - 1) * stride, 0), min(kernel, padding + length)):
            shift = k - padding
            begin = max((stride - 1 - shift) // stride, 0)
            for i in range(begin, min((length - 1 - shift) // stride + 1, outputs)):
                sums[i * stride + shift] += shares[i]


def average(x: Array, out: Array, window: Window, whole: bool) -> None:
    """Write the averages of windows along the last axis of x into out; of integers, cut off."""
    counts = _counts(x.shape[-1], out.shape[-1], window, whole, x.dtype)
    _average(_rows(x), _rows(out), counts, window, x.dtype.kind != "f")


def spread(x: Array, out: Array, window: Window, whole: bool) -> None:
    """Write into out what average's adjoint makes of x: each place gets a share of each window that
    it lies in.
    """
    counts = _counts(out.shape[-1], x.shape[-1], window, whole, x.dtype)
    _spread(_rows(x), _rows(out), counts, window)


def _rows(x: Array) -> Array:
    return np.ascontiguousarray(x).reshape(int(np.prod(x.shape[:-1])), x.shape[-1])


@functools.lru_cache(maxsize=64)
def _counts(length: int, outputs: int, window: Window, whole: bool, dtype: Any) -> Array:
    """Return by what the sum of each window is divided."""
    kernel, stride, padding = window
    first = np.arange(outputs) * stride - padding
    end = np.minimum(first + kernel, length + padding)
    if not whole:
        first, end = np.maximum(first, 0), np.minimum(end, length)
    return (end - first).astype(dtype)
