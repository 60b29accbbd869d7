"""Sums of neighbours by weight along one, two or three axes at once, on the CPU.

Output i of an axis is the sum of weights[k] * x[places[k]] for k from starts[i] to starts[i + 1].
x has these axes last; what comes before is planes. `table` holds starts and places, axis by axis,
and `weights` the weights in the same order, both of three axes: those that x has not come first, as
ones of a single element. `taps` says how many places each of x's axes has.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .compiler import compiled

Array = np.ndarray[Any, Any]


@compiled(alone=False)
def _add_row(row: Any, weight: Any, total: Any) -> None:
    for i in range(len(total)):
        total[i] += weight * row[i]


@compiled(alone=False)
def _along(row: Any, starts: Any, places: Any, weights: Any, even: Any, out: Any) -> None:
    """Sum along a row; even: how many taps all outputs have, 0 where they differ."""
    if even == 1:
        for i in range(len(out)):
            out[i] = weights[i] * row[places[i]]
    elif even == 2:
        for i in range(len(out)):
            out[i] = (
                weights[2 * i] * row[places[2 * i]] + weights[2 * i + 1] * row[places[2 * i + 1]]
            )
    else:
        for i in range(len(out)):
            total = out.dtype.type(0)
            for k in range(starts[i], starts[i + 1]):
                total += weights[k] * row[places[k]]
            out[i] = total


@compiled()
def _weigh(x: Any, out: Any, deep: Any, high: Any, wide: Any, even: Any) -> None:
    total = np.empty(x.shape[3], out.dtype)
    for p in range(x.shape[0]):
        for od in range(out.shape[1]):
            for oh in range(out.shape[2]):
                total[:] = 0
                for i in range(deep[0][od], deep[0][od + 1]):
                    for j in range(high[0][oh], high[0][oh + 1]):
                        row = x[p, deep[1][i], high[1][j]]
                        _add_row(row, deep[2][i] * high[2][j], total)
                _along(total, wide[0], wide[1], wide[2], even, out[p, od, oh])


def weigh(x: Array, table: Array, weights: Array, out: Array, taps: tuple[int, ...]) -> None:
    """Write the weighted sums along the last len(taps) axes into out.

    The rows that make one row of out are added first, many elements at once; what they make stays
    in the first-level cache while the sums along it are taken.
    """
    axes = len(taps)
    if not x.size or not out.size:
        out.fill(0)
        return
    ones = (1,) * (3 - axes)
    tables = list(_tables(table, weights, ones + out.shape[-axes:], ones + taps))
    counts = np.diff(tables[-1][0])
    even = int(counts[0]) if (counts == counts[0]).all() else 0
    _weigh(
        np.ascontiguousarray(x).reshape(-1, *ones, *x.shape[-axes:]),
        out.reshape(-1, *ones, *out.shape[-axes:]),
        *tables,
        even,
    )


def _tables(
    table: Array, weights: Array, lengths: tuple[int, ...], taps: tuple[int, ...]
) -> Iterator[tuple[Array, Array, Array]]:
    """Yield (starts, places, weights) of each axis."""
    at, weight = 0, 0
    for length, count in zip(lengths, taps, strict=True):
        split, end = at + length + 1, at + length + 1 + count
        yield table[at:split], table[split:end], weights[weight : weight + count]
        at, weight = end, weight + count
