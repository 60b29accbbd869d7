"""The gradients of reductions along rows as separate kernels, for double backward, on the CPU.

These work for any size and layout; rows/small_slopes.py has faster kernels for small tensors.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..silence import silent
from .sums import add_up

Array = np.ndarray[Any, Any]


@silent
def var(g: Array, x: Array, out: Array, length: int, scale: float) -> None:
    """Write g * (x - mean) * scale into out.

    x and out: rows of `length` elements along the last axes; g: a number for each row.
    """
    if not x.size:
        return
    rows = x.reshape(-1, length)
    centre = np.divide(add_up(rows, 1, keepdims=True), length)
    made = np.subtract(rows, centre)
    np.multiply(made, np.multiply(g.reshape(-1, 1), scale), out=made)
    np.copyto(out, made.reshape(x.shape))


@silent
def logsumexp(g: Array, x: Array, out: Array, length: int) -> None:
    """Write g * exp(x) / sum(exp(x)) into out. Shapes as in `var`.

    A row with NaN or +inf, or with only -inf, gives NaN, as softmax does.
    """
    if not x.size:
        return
    rows = x.reshape(-1, length)
    powers = np.subtract(rows, np.maximum.reduce(rows, axis=1, keepdims=True))
    np.exp(powers, out=powers)
    scale = np.divide(g.reshape(-1, 1), add_up(powers, 1, keepdims=True))
    np.multiply(powers, scale, out=powers)
    np.copyto(out, powers.reshape(x.shape))


@silent
def norm(g: Array, size: Array, x: Array, out: Array, length: int) -> None:
    """Write g * x / size into out; size: a nonzero number for each row. Shapes as in `var`."""
    if not x.size:
        return
    rows = x.reshape(-1, length)
    made = np.divide(rows, size.reshape(-1, 1))
    np.multiply(made, g.reshape(-1, 1), out=made)
    np.copyto(out, made.reshape(x.shape))
