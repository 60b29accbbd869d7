"""Softmax and its logarithm along one axis, on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..reduce.sums import add_up, log_of_total
from ..silence import silent

Array = np.ndarray[Any, Any]


@silent
def _shifted(x: Array, out: Array, axis: int) -> Array:
    """Return x less its maximum along axis, in out."""
    np.subtract(x, np.maximum.reduce(x, axis=axis, keepdims=True), out=out)
    return out


@silent
def log_softmax(x: Array, out: Array, axis: int) -> None:
    """Write x - log(sum(exp(x))) along axis into out, shifted by the maximum so that nothing
    overflows.

    A row with NaN, or with +inf, gives NaN, as in PyTorch; -inf entries give -inf.
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
    """Write exp(x) / sum(exp(x)) along axis into out, shifted by the maximum so that nothing
    overflows.

    A row with NaN, or with +inf, gives NaN, as in PyTorch; so does one of nothing but
    -inf.
    """
    if x.ndim == 0:
        out[...] = np.where(np.isfinite(x), 1.0, np.nan)
        return
    if x.shape[axis] == 0:
        return
    _shifted(x, out, axis)
    np.exp(out, out=out)
    np.divide(out, add_up(out, axis, keepdims=True), out=out)
