"""Cumulative extremes and linear recurrences of many elements, compiled.

If the axis is the last one, the latency of one step limits the speed. For other axes memory
bandwidth does, because the inner loop goes over adjacent rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..jit.compiler import compiled


@compiled(alone=False)
def _extremes_of_row(x: Any, out: Any, indices: Any, largest: bool) -> None:
    top, place = x[0], 0
    for k in range(len(x)):
        new = x[k]
        # After a NaN, only another NaN replaces the extreme.
        if (new >= top if largest else new <= top) or new != new:
            top, place = new, k
        out[k], indices[k] = top, place


@compiled("cummax and cummin")
def extremes(x: Any, into: Any, indices: Any, largest: bool) -> None:
    for o in range(x.shape[0]):
        if x.shape[2] == 1:
            _extremes_of_row(x[o, :, 0], into[o, :, 0], indices[o, :, 0], largest)
            continue
        for j in range(x.shape[2]):
            into[o, 0, j], indices[o, 0, j] = x[o, 0, j], 0
        for k in range(1, x.shape[1]):
            for j in range(x.shape[2]):
                new, old = x[o, k, j], into[o, k - 1, j]
                taken = (new >= old if largest else new <= old) or new != new
                into[o, k, j] = new if taken else old
                indices[o, k, j] = k if taken else indices[o, k - 1, j]


@compiled("cumprod and logcumsumexp")
def recurrence(factor: Any, x: Any, into: Any, backwards: bool) -> None:
    length = x.shape[1]
    y = np.empty(x.shape[2], np.float64)
    for o in range(x.shape[0]):
        first = length - 1 if backwards else 0
        for j in range(x.shape[2]):
            y[j] = x[o, first, j]
            into[o, first, j] = y[j]
        for step in range(1, length):
            k = length - 1 - step if backwards else step
            by = k + 1 if backwards else k
            for j in range(x.shape[2]):
                y[j] = y[j] * factor[o, by, j] + x[o, k, j]
                into[o, k, j] = y[j]
