"""Weighted sums of neighboring elements along one to three axes (interpolation), on the CPU.

Output i of an axis is the sum of weights[k] * x[places[k]] for k from starts[i] to starts[i + 1] -
1. The axes are the last one to three axes of x; all axes before these are merged into one axis of
planes. `table` has the starts and places of one axis after the other, and `weights` has the weights
in the same order. Both are always for three axes: missing axes come first, with one element each.
`taps` has the number of places of each axis that x has.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..index.indices import own_copy, refuse
from ..jit.background import is_numpys_turn
from ..jit.kernel_cache import Loops
from ..silence import silent
from .segment_sums import sums_between

Array = np.ndarray[Any, Any]
loops = Loops("nn.weighted_loops")


def compile_loop(x: Any, made: Any, weights: Any, whole: Any) -> None:
    """Compile the loop for the given dtypes of x, out and weights; `whole` is the table's dtype."""
    one = np.array([0, 1], whole), np.zeros(1, whole), np.zeros(1, weights)
    loops.weigh(np.zeros((1, 1, 1, 1), x), np.zeros((1, 1, 1, 1), made), one, one, one, 1)


def _tables(
    table: Array, weights: Array, lengths: tuple[int, ...], taps: tuple[int, ...]
) -> Iterator[tuple[Array, Array, Array]]:
    """Yield (starts, places, weights) of each axis."""
    at, weight = 0, 0
    for length, count in zip(lengths, taps, strict=True):
        split, end = at + length + 1, at + length + 1 + count
        yield table[at:split], table[split:end], weights[weight : weight + count]
        at, weight = end, weight + count


def parts_of(
    table: Array, weights: Array, lengths: tuple[int, ...], taps: tuple[int, ...]
) -> tuple[Any, ...]:
    """Return (starts, places, weights) of each axis, and the number of places that all outputs of
    the last axis have, or 0 if the outputs have different numbers of places.
    """
    tables = list(_tables(table, weights, lengths, taps))
    counts = np.diff(tables[-1][0])
    return *tables, int(counts[0]) if (counts == counts[0]).all() else 0


@silent
def weigh(x: Array, table: Array, weights: Array, out: Array, taps: tuple[int, ...]) -> None:
    """Write the weighted sums along the last len(taps) axes into out.

    For each row of out, the loop first computes the weighted sum of the rows of x that contribute;
    this vectorizes well. The sum then stays in the L1 cache while the loop interpolates along it.
    """
    axes = len(taps)
    if not x.size or not out.size:
        out.fill(0)
        return
    ones = (1,) * (3 - axes)
    *tables, even = parts_of(table, weights, ones + out.shape[-axes:], ones + taps)
    given = np.ascontiguousarray(x).reshape(-1, *ones, *x.shape[-axes:])
    made = out.reshape(-1, *ones, *out.shape[-axes:])
    if is_numpys_turn(compile_loop, x.dtype, out.dtype, weights.dtype, table.dtype):
        for axis, (starts, places, by) in enumerate(tables, 1):
            column = by.reshape([-1 if i == axis else 1 for i in range(4)])
            own = own_copy(places, given.shape[axis], axis)
            starts = own_copy(starts, len(own) + 1, axis)
            parts = np.multiply(np.take(given, own, axis), column, dtype=out.dtype)
            given = sums_between(parts, starts[:-1], starts[1:], axis)
        np.copyto(made, given)
        return
    found, axis = loops.weigh(given, made, *tables, even)
    if axis:
        refuse(found, given.shape[axis], axis)
