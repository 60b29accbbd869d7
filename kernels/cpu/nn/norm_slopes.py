"""The input gradients of norms as separate kernels, for double backward, on the CPU.

These work for any size and layout; rows/small_slopes.py has faster kernels for small tensors.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..reduce.sums import add_up, add_up_products
from ..silence import silent
from .normalization import layer_norm_gradient

Array = np.ndarray[Any, Any]


def across_channels(row: Array, x: Array) -> Array:
    """Reshape `row`, which has one number per channel, to broadcast with x, which has the shape
    (samples, channels, ...).
    """
    return row.reshape(-1, *[1] * (x.ndim - 2))


@silent
def layer_norm(
    g: Array, x: Array, weight: Array | None, mean: Array, deviation: Array, out: Array
) -> None:
    """Write the gradient of normalization.layer_norm by x into out. Shapes: see that function."""
    layer_norm_gradient(g, x, weight, mean, deviation, out)


@silent
def rms_norm(g: Array, x: Array, weight: Array | None, scale: Array, out: Array) -> None:
    """Write the gradient of normalization.rms_norm by x into out. Shapes: see that function."""
    if weight is not None:
        g = np.multiply(g, weight)
    normal = np.multiply(x, scale)
    along = np.divide(add_up_products(g, normal), max(x.shape[1], 1))
    np.multiply(normal, along, out=normal)
    np.subtract(g, normal, out=normal)
    np.multiply(normal, scale, out=out, casting="unsafe")


@silent
def group_norm(
    g: Array,
    x: Array,
    weight: Array | None,
    mean: Array,
    deviation: Array,
    out: Array,
    num_groups: int,
    eps: float,
) -> None:
    """Write the gradient of channel_norms.groups by x into out. Shapes: see that function.
    `deviation` already includes eps.
    """
    if not x.size:
        return
    if weight is not None:
        g = np.multiply(g, across_channels(weight, x))
    rows = x.reshape(len(x) * num_groups, -1)
    made = np.empty(rows.shape, rows.dtype)
    layer_norm_gradient(g.reshape(rows.shape), rows, None, mean, deviation, made)
    np.copyto(out, made.reshape(x.shape), casting="unsafe")


@silent
def batch_norm(
    g: Array,
    x: Array,
    weight: Array | None,
    mean: Array,
    variance: Array,
    out: Array,
    eps: float,
) -> None:
    """Write the gradient of batch_norm.channels by x into out. Shapes: see that function."""
    if not x.size:
        return
    axes = (0, *range(2, x.ndim))
    n = x.size // x.shape[1]
    if weight is not None:
        g = np.multiply(g, across_channels(weight, x))
    scale = across_channels(np.divide(1.0, np.sqrt(np.add(variance, eps))), x)
    normal = np.multiply(np.subtract(x, across_channels(mean, x)), scale)
    along = np.divide(add_up(np.multiply(g, normal), axes, keepdims=True), n)
    even = np.divide(add_up(g, axes, keepdims=True), n)
    np.multiply(normal, along, out=normal)
    np.subtract(np.subtract(g, even), normal, out=normal)
    np.multiply(normal, scale, out=out, casting="unsafe")
