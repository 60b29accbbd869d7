"""The negative log likelihood and its gradient, on the CPU.

x has the classes along axis 1 (axis 0 of a vector); target has the class of each sample. Samples of
class `ignored` are ignored. `reduction` is 0 for none, 1 for the mean, 2 for the sum.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..index.indices import ends, refuse_class
from ..reduce.sums import add_up
from ..silence import silent

Array = np.ndarray[Any, Any]


def _chosen(shape: tuple[int, ...], target: Array, ignored: int) -> tuple[Any, Array, Array | None]:
    """Return an index of x for the element of each sample's class, a private copy of the classes,
    and a mask of the samples that count (None if all do). The class of a sample that does not count
    is set to 0.

    Raises  IndexError for a class that is out of range
    """
    classes = shape[1] if len(shape) > 1 else shape[0]
    # A private copy: NumPy reads an index again after its check. See Note [Indices that change].
    target, counts = target.copy(), None
    low, high = ends(target) if target.size else (-1, 0)
    if low < 0 or high >= classes or 0 <= ignored < classes:
        counts = np.not_equal(target, ignored)
        target = np.where(counts, target, 0)
        low, high = ends(target) if target.size else (0, 0)
        if target.size and (low < 0 or high >= classes):
            refuse_class(low if low < 0 else high, classes)
    if len(shape) == 1:
        return (target,), target, counts
    if len(shape) == 2:
        return (np.arange(len(target)), target), target, counts
    grid = np.ogrid[tuple(slice(n) for n in target.shape)]
    return (grid[0], target, *grid[1:]), target, counts


def _flat(x: Array, index: Any) -> tuple[Array, Any]:
    """Return x and the index of _chosen. If x is a matrix in C order, return x as a vector instead,
    and positions in this vector: NumPy indexes a vector faster.
    """
    if x.ndim != 2 or not x.flags.c_contiguous:
        return x, index
    places, classes = index
    places *= x.shape[1]
    places += classes
    return x.reshape(-1), places


def _weights(target: Array, weight: Array | None, counts: Array | None, dtype: Any) -> Array:
    if counts is None:
        return np.ones(target.shape, dtype) if weight is None else weight[target]
    if weight is None:
        return counts.astype(dtype)
    return np.where(counts, weight[target], np.zeros((), dtype))


@silent
def nll(
    x: Array,
    target: Array,
    weight: Array | None,
    out: Array,
    total: Array,
    ignored: int,
    reduction: int,
) -> None:
    """Write -weight[target] * x[target] of each sample, or their sum or weighted mean, into out.

    total gets the sum of the weights.
    """
    if target.size and not x.size:  # there are no classes, so each sample must be ignored
        counting = target[target != ignored]
        if counting.size:
            refuse_class(int(counting[0]), 0)
        total.fill(0)
        out.fill(np.nan if reduction == 1 else 0)
        return
    index, own, counts = _chosen(x.shape, target, ignored)
    if weight is None and counts is None:
        # The common case in training; this branch takes a third of the time of the other.
        flat, places = _flat(x, index)
        losses = np.negative(flat[places], dtype=x.dtype)
        total.fill(own.size)
    else:
        weights = _weights(own, weight, counts, x.dtype)
        losses = np.negative(np.multiply(x[index], weights))
        if counts is not None:
            # np.where instead of a product with 0, because x of ignored samples may be infinite.
            losses = np.where(counts, losses, np.zeros((), x.dtype))
        np.copyto(total, add_up(weights), casting="unsafe")
    if reduction == 0:
        np.copyto(out, losses, casting="unsafe")
        return
    loss = add_up(losses)
    np.copyto(out, np.divide(loss, total) if reduction == 1 else loss, casting="unsafe")


@silent
def nll_gradient(
    g: Array,
    target: Array,
    weight: Array | None,
    total: Array,
    out: Array,
    ignored: int,
    reduction: int,
) -> None:
    """Write the gradient of nll by x into out: -weight[target] * g at each sample's class."""
    if not out.size:
        return
    index, own, counts = _chosen(out.shape, target, ignored)
    out.fill(0)
    parts = np.negative(np.divide(g, total) if reduction == 1 else g)
    if weight is not None or counts is not None:
        parts = np.multiply(_weights(own, weight, counts, out.dtype), parts)
    if counts is not None:
        parts = np.where(counts, parts, np.zeros((), out.dtype))
    flat, places = _flat(out, index)
    flat[places] = parts
