"""Softmax and its logarithm along one axis, on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np

from .silence import silent
from .sums import add_up

Array = np.ndarray[Any, Any]


@silent
def _shifted(x: Array, out: Array, axis: int) -> Array:
    """Return x less its maximum along axis, in out, or in float32 where out is float16."""
    wide = np.empty(x.shape, np.float32) if x.dtype == np.float16 else out
    np.subtract(x, np.maximum.reduce(x, axis=axis, keepdims=True), out=wide, dtype=wide.dtype)
    return wide


@silent
def log_softmax(x: Array, out: Array, axis: int) -> None:
    """Write x - log(sum(exp(x))) along axis into out, shifted by the maximum so that nothing
    overflows.

    A row with NaN, or with +inf, gives NaN, as in PyTorch; -inf entries give -inf. float16 computes
    in float32.
    """
    if x.ndim == 0:
        out[...] = np.where(np.isfinite(x), 0.0, np.nan)
        return
    if x.shape[axis] == 0:
        return
    wide = _shifted(x, out, axis)
    np.subtract(wide, np.log(add_up(np.exp(wide), axis, keepdims=True)), out=wide)
    if wide is not out:
        np.copyto(out, wide, casting="unsafe")


@silent
def softmax(x: Array, out: Array, axis: int) -> None:
    """Write exp(x) / sum(exp(x)) along axis into out, shifted by the maximum so that nothing
    overflows.

    A row with NaN, or with +inf, gives NaN, as in PyTorch; so does one of nothing but -inf. float16
    computes in float32.
    """
    if x.ndim == 0:
        out[...] = np.where(np.isfinite(x), 1.0, np.nan)
        return
    if x.shape[axis] == 0:
        return
    wide = _shifted(x, out, axis)
    np.exp(wide, out=wide)
    np.divide(wide, add_up(wide, axis, keepdims=True), out=wide)
    if wide is not out:
        np.copyto(out, wide, casting="unsafe")
