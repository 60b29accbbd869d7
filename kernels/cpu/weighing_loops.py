"""The loop of weighing.py, compiled."""

from __future__ import annotations

from typing import Any

import numpy as np

from .compiler import compiled


@compiled(alone=False)
def _add_row(row: Any, weight: Any, total: Any) -> None:
    for i in range(len(total)):
        total[i] += weight * row[i]


@compiled(alone=False)
def _along(row: Any, starts: Any, places: Any, weights: Any, even: Any, into: Any) -> None:
    """Sum along a row; even: how many taps all outputs have, 0 where they differ."""
    if even == 1:
        for i in range(len(into)):
            into[i] = weights[i] * row[places[i]]
    elif even == 2:
        for i in range(len(into)):
            into[i] = (
                weights[2 * i] * row[places[2 * i]] + weights[2 * i + 1] * row[places[2 * i + 1]]
            )
    else:
        for i in range(len(into)):
            total = into.dtype.type(0)
            for k in range(starts[i], starts[i + 1]):
                total += weights[k] * row[places[k]]
            into[i] = total


@compiled("interpolate and adaptive pooling")
def weigh(x: Any, into: Any, deep: Any, high: Any, wide: Any, even: Any) -> None:
    total = np.empty(x.shape[3], into.dtype)
    for p in range(x.shape[0]):
        for od in range(into.shape[1]):
            for oh in range(into.shape[2]):
                total[:] = 0
                for i in range(deep[0][od], deep[0][od + 1]):
                    for j in range(high[0][oh], high[0][oh + 1]):
                        row = x[p, deep[1][i], high[1][j]]
                        _add_row(row, deep[2][i] * high[2][j], total)
                _along(total, wide[0], wide[1], wide[2], even, into[p, od, oh])
