"""Normalisation of groups of channels, and of channels by given numbers, on the CPU.

Of few numbers the kernels of rows/small_groups.py serve; these are for all others.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..silence import silent
from .normalization import layer_norm

Array = np.ndarray[Any, Any]


def _by_channel(row: Array, like: Array) -> Array:
    return row.reshape(-1, *[1] * (like.ndim - 2))


@silent
def groups(
    x: Array,
    weight: Array | None,
    bias: Array | None,
    out: Array,
    mean: Array,
    deviation: Array,
    count: int,
    eps: float,
) -> None:
    """Write (x - mean) / deviation * weight + bias of each of `count` groups of channels of each
    sample into out, the groups' numbers beside it.

    x and out: (samples, channels, ...); weight and bias: (channels,); mean and deviation:
    (samples * count, 1). out is in C order.
    """
    rows = (mean.shape[0], x.size // max(mean.shape[0], 1))
    layer_norm(x.reshape(rows), None, None, out.reshape(rows), mean, deviation, eps)
    if weight is not None:
        np.multiply(out, _by_channel(weight, out), out=out, casting="unsafe")
    if bias is not None:
        np.add(out, _by_channel(bias, out), out=out, casting="unsafe")


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
    """Write (x - mean) / sqrt(variance + eps) * weight + bias of channels into out.

    x and out: (samples, channels, ...); all others: (channels,)
    """
    scale = np.divide(1.0, np.sqrt(np.add(variance, eps)))
    if weight is not None:
        scale = np.multiply(scale, weight)
    shift = np.negative(np.multiply(mean, scale))
    if bias is not None:
        shift = np.add(shift, bias)
    found = np.multiply(x, _by_channel(scale, x))
    np.add(found, _by_channel(shift, x), out=out, casting="unsafe")
