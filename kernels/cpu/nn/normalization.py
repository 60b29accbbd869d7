"""Layer norm, its gradient, and RMS norm, on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..reduce.sums import add_up, add_up_products
from ..silence import silent

Array = np.ndarray[Any, Any]


@silent
def layer_norm(
    x: Array,
    weight: Array | None,
    bias: Array | None,
    out: Array,
    mean: Array,
    deviation: Array,
    eps: float,
) -> None:
    """Write (x - mean) / deviation * weight + bias into out, and each row's mean and deviation.

    x and out: (rows, n); weight and bias: (n,); mean and deviation: (rows, 1).
    """
    n = max(x.shape[1], 1)
    centre = np.divide(add_up(x, 1, keepdims=True), n)
    away = np.subtract(x, centre)
    scale = np.divide(add_up_products(away, away), n)
    scale = np.sqrt(np.add(scale, eps))
    np.copyto(mean, centre, casting="unsafe")
    np.copyto(deviation, scale, casting="unsafe")
    np.divide(away, scale, out=away)
    if weight is not None:
        np.multiply(away, weight, out=away, casting="unsafe")
    if bias is not None:
        np.add(away, bias, out=away, casting="unsafe")
    np.copyto(out, away, casting="unsafe")


@silent
def layer_norm_gradient(
    g: Array, x: Array, weight: Array | None, mean: Array, deviation: Array, out: Array
) -> None:
    """Write the gradient of layer_norm by x into out. Shapes as for layer_norm."""
    n = max(x.shape[1], 1)
    if weight is not None:
        g = np.multiply(g, weight)
    normal = np.divide(np.subtract(x, mean), deviation)
    along = np.divide(add_up_products(g, normal), n)
    even = np.divide(add_up(g, 1, keepdims=True), n)
    np.multiply(normal, along, out=normal)
    np.subtract(np.subtract(g, even), normal, out=normal)
    np.divide(normal, deviation, out=out, casting="unsafe")


@silent
def rms_norm(x: Array, weight: Array | None, out: Array, scale: Array, eps: float) -> None:
    """Write x * scale * weight into out; also write scale, which is 1 / sqrt(mean(row**2) + eps).

    x and out: (rows, n); weight: (n,); scale: (rows, 1).
    """
    by = np.divide(add_up_products(x, x), max(x.shape[1], 1))
    by = np.divide(1, np.sqrt(np.add(by, eps)))
    np.copyto(scale, by, casting="unsafe")
    found = np.multiply(x, by)
    if weight is not None:
        np.multiply(found, weight, out=found, casting="unsafe")
    np.copyto(out, found, casting="unsafe")
