"""Cross entropy of rows of logits with class indices, and its gradient, on the CPU.

This is the loss of a classifier's last layer, in one pass over (rows, classes); log_softmax, nll
and their sums would need three passes. Memory is the bottleneck for many classes, the overhead of
calls for few. If a gradient is needed, exp of the shifted logits, and the sums of exp, are kept for
the gradient.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..index.indices import own_classes
from ..reduce.sums import add_up, log_of_total
from ..silence import silent

Array = np.ndarray[Any, Any]


@silent
def rows(
    x: Array, target: Array, out: Array, weights: Array, totals: Array, reduction: int
) -> None:
    """Write the losses log(sum(exp(x[i]))) - x[i, target[i]], or their mean or sum, into out.

    weights: (rows, classes), gets exp(x) up to a factor for each row; totals: (rows,), gets the
    sums of weights; target: (rows,). reduction is 0 for none, 1 for the mean, 2 for the sum. NaN
    and inf are treated as in softmax.log_softmax.

    Raises  IndexError for a class that is out of range
    """
    if not x.size:
        # The mean of an empty batch is NaN, its sum is 0.
        out.fill(np.nan if reduction == 1 else 0)
        return
    own = own_classes(target, x.shape[1])
    np.subtract(x, np.maximum.reduce(x, 1, keepdims=True), out=weights)
    chosen = weights[np.arange(len(own)), own]
    np.exp(weights, out=weights)
    add_up(weights, 1, out=totals)
    losses = np.subtract(log_of_total(weights, totals, 1), chosen)
    if reduction == 0:
        np.copyto(out, losses)
        return
    total = add_up(losses)
    np.copyto(out, total / len(target) if reduction == 1 else total)


@silent
def losses(x: Array, target: Array, out: Array, reduction: int) -> None:
    """Write the same losses as `rows` into out, if no gradient is needed."""
    rows(x, target, out, np.empty_like(x), np.empty(len(x), x.dtype), reduction)


@silent
def rows_gradient(
    g: Array, target: Array, weights: Array, totals: Array, out: Array, reduction: int
) -> None:
    """Write the gradient of `rows` by x into out: g * (weights / totals), minus g at the class."""
    own = own_classes(target, out.shape[1])
    if reduction == 1 and len(own):
        g = g / len(own)
    shares, rows = np.divide(g, totals), np.arange(len(own))
    np.multiply(weights, shares[:, None], out=out)
    out[rows, own] -= g
    # See Note [Rows with one large share] in row_steps.py.
    large = np.flatnonzero(weights[rows, own] > totals * 0.9375)
    if large.size:
        others = weights[large]
        others[np.arange(len(large)), own[large]] = 0
        slopes = np.broadcast_to(shares, totals.shape)[large]
        out[large, own[large]] = -(add_up(others, 1) * slopes)


@silent
def slope(
    g: Array,
    x: Array,
    target: Array,
    weights: Array,
    totals: Array,
    out: Array,
    reduction: int,
) -> None:
    """Do the same as rows_gradient. x is an argument because the second gradient needs it."""
    rows_gradient(g, target, weights, totals, out, reduction)
