"""Softmax and its logarithm along one axis, on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np

from .silence import silent

Array = np.ndarray[Any, Any]


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
    if x.dtype == np.float16:
        wide = np.empty(x.shape, np.float32)
        log_softmax(x.astype(np.float32), wide, axis)
        np.copyto(out, wide, casting="unsafe")
        return
    if x.shape[axis] == 0:
        return
    np.subtract(x, np.maximum.reduce(x, axis=axis, keepdims=True), out=out)
    np.subtract(out, np.log(np.add.reduce(np.exp(out), axis=axis, keepdims=True)), out=out)


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
    if x.dtype == np.float16:
        wide = np.empty(x.shape, np.float32)
        softmax(x.astype(np.float32), wide, axis)
        np.copyto(out, wide, casting="unsafe")
        return
    if x.shape[axis] == 0:
        return
    np.subtract(x, np.maximum.reduce(x, axis=axis, keepdims=True), out=out)
    np.exp(out, out=out)
    np.divide(out, np.add.reduce(out, axis=axis, keepdims=True), out=out)
