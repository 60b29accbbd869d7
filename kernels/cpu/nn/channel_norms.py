"""Group norm, and batch norm by given statistics, on the CPU.

These work for any size and layout; small_groups.py has faster kernels for small tensors.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..silence import silent
from .norm_slopes import across_channels
from .normalization import layer_norm

Array = np.ndarray[Any, Any]


@silent
def _scale_and_shift(normal: Array, weight: Array | None, bias: Array | None, out: Array) -> None:
    """Write normal * weight + bias into out; normal is overwritten."""
    if weight is not None:
        np.multiply(normal, across_channels(weight, normal), out=normal, casting="unsafe")
    if bias is not None:
        np.add(normal, across_channels(bias, normal), out=normal, casting="unsafe")
    np.copyto(out, normal, casting="unsafe")


@silent
def groups(
    x: Array,
    weight: Array | None,
    bias: Array | None,
    out: Array,
    mean: Array,
    deviation: Array,
    num_groups: int,
    eps: float,
) -> None:
    """Write (x - mean) / deviation * weight + bias into out, for each group of channels of each
    sample, and the groups' statistics into mean and deviation.

    x and out: (samples, channels, ...); weight and bias: (channels,); mean and deviation: (samples
    * num_groups, 1). For groups without elements, mean and deviation are NaN.
    """
    if not x.size:
        mean.fill(np.nan)
        deviation.fill(np.nan)
        return
    rows = x.reshape(len(x) * num_groups, -1)
    made = np.empty(rows.shape, rows.dtype)
    layer_norm(rows, None, None, made, mean, deviation, eps)
    _scale_and_shift(made.reshape(x.shape), weight, bias, out)


@silent
def by_known(
    x: Array,
    mean: Array,
    variance: Array,
    weight: Array | None,
    bias: Array | None,
    out: Array,
    eps: float,
) -> None:
    """Write (x - mean) / sqrt(variance + eps) * weight + bias of each channel into out.

    x and out: (samples, channels, ...); all others: (channels,).
    """
    scale = np.divide(1.0, np.sqrt(np.add(variance, eps)))
    away = np.subtract(x, across_channels(mean, x))
    np.multiply(away, across_channels(scale, x), out=away, casting="unsafe")
    _scale_and_shift(away, weight, bias, out)
