"""Softmax and its logarithm along one axis, on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..reduce.sums import add_up, log_of_total
from ..silence import silent

Array = np.ndarray[Any, Any]


@silent
def _shifted(x: Array, out: Array, axis: int) -> Array:
    """Write x minus its maximum along axis into out, and return out."""
    np.subtract(x, np.maximum.reduce(x, axis=axis, keepdims=True), out=out)
    return out


@silent
def log_softmax(x: Array, out: Array, axis: int) -> None:
    """Write x - log(sum(exp(x))) along axis into out, shifted by the maximum to avoid overflow.

    A row with NaN or +inf gives NaN, as in PyTorch; -inf entries give -inf.
    """
    if x.ndim == 0:
        out[...] = np.where(np.isfinite(x), 0.0, np.nan)
        return
    if x.shape[axis] == 0:
        return
    _shifted(x, out, axis)
    powers = np.exp(out)
    total = add_up(powers, axis, keepdims=True)
    np.subtract(out, log_of_total(powers, total, axis, keepdims=True), out=out)


@silent
def softmax(x: Array, out: Array, axis: int) -> None:
    """Write exp(x) / sum(exp(x)) along axis into out, shifted by the maximum to avoid overflow.

    A row with NaN or +inf, or with only -inf, gives NaN, as in PyTorch.
    """
    if x.ndim == 0:
        out[...] = np.where(np.isfinite(x), 1.0, np.nan)
        return
    if x.shape[axis] == 0:
        return
    _shifted(x, out, axis)
    np.exp(out, out=out)
    np.divide(out, add_up(out, axis, keepdims=True), out=out)


@silent
def softmax_slope(g: Array, y: Array, out: Array) -> None:
    """Write the gradient of softmax along the last axis into out, computed from y = softmax(x).

    See Note [Slopes of rows with one large share] in fastdist/ops/nn/softmax.py.
    """
    if not y.size:
        return
    away = np.subtract(g, add_up(np.multiply(g, y), -1, keepdims=True))
    rest = add_up(np.multiply(away, y), -1, keepdims=True)
    np.multiply(np.subtract(away, rest), y, out=out)


@silent
def log_softmax_slope(g: Array, y: Array, out: Array) -> None:
    """Write the gradient of log_softmax along the last axis into out, from y = log_softmax(x).

    See Note [Slopes of rows with one large share] in fastdist/ops/nn/softmax.py.
    """
    if not y.size:
        return
    is_large, shares = np.greater(y, -0.69), np.exp(y)
    others = add_up(np.where(is_large, g.dtype.type(0), g), -1, keepdims=True)
    total = add_up(g, -1, keepdims=True)
    large = np.subtract(np.multiply(np.negative(g), np.expm1(y)), np.multiply(shares, others))
    np.copyto(out, np.where(is_large, large, np.subtract(g, np.multiply(shares, total))))
