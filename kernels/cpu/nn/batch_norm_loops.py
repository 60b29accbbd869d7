"""The loops of batch_norm.py, compiled."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from ..jit.compiler import compiled

Array = np.ndarray[Any, Any]

_PIECE: Final = 1024
# The number of adjacent elements that are processed together if channels have few positions.
_TOGETHER: Final = 64


@compiled("batch_norm", fastmath={"reassoc", "contract"})
def normalize(
    x: Array, weight: Array, bias: Array, into: Array, mean: Array, variance: Array, eps: float
) -> None:
    batch, channels, length = x.shape
    count = batch * length
    step = max(_TOGETHER // length, 1)
    totals = np.empty(step, np.float64)
    rests = np.empty(step, np.float64)
    for first in range(0, channels, step):
        last = min(first + step, channels)
        totals[:] = 0.0
        for b in range(batch):
            for c in range(first, last):
                row = x[b, c]
                for start in range(0, length, _PIECE):
                    part = x.dtype.type(0)
                    for i in range(start, min(start + _PIECE, length)):
                        part += row[i]
                    totals[c - first] += part
        for c in range(first, last):
            mean[c] = totals[c - first] / count
        totals[:] = 0.0
        rests[:] = 0.0
        for b in range(batch):
            for c in range(first, last):
                row, centre = x[b, c], mean[c]
                for start in range(0, length, _PIECE):
                    part = x.dtype.type(0)
                    rest = x.dtype.type(0)
                    for i in range(start, min(start + _PIECE, length)):
                        away = row[i] - centre
                        part += away * away
                        rest += away
                    totals[c - first] += part
                    rests[c - first] += rest
        for c in range(first, last):
            # Correct for the rounding error of the mean.
            rest = rests[c - first] / count
            variance[c] = totals[c - first] / count - rest * rest
        for b in range(batch):
            for c in range(first, last):
                row, to, centre, shift = x[b, c], into[b, c], mean[c], bias[c]
                scale = x.dtype.type(weight[c] / math.sqrt(np.float64(variance[c]) + eps))
                for i in range(length):
                    to[i] = (row[i] - centre) * scale + shift


@compiled("the gradient of batch_norm", fastmath={"reassoc", "contract"})
def gradients(
    g: Array,
    x: Array,
    weight: Array,
    mean: Array,
    variance: Array,
    into: Array,
    by_weight: Array,
    by_bias: Array,
    eps: float,
    is_whole: bool,
) -> None:
    batch, channels, length = x.shape
    count = batch * length
    step = max(_TOGETHER // length, 1)
    evens = np.empty(step, np.float64)
    alongs = np.empty(step, np.float64)
    for first in range(0, channels, step):
        last = min(first + step, channels)
        evens[:] = 0.0
        alongs[:] = 0.0
        for b in range(batch):
            for c in range(first, last):
                row, slope, centre = x[b, c], g[b, c], mean[c]
                for start in range(0, length, _PIECE):
                    even = x.dtype.type(0)
                    along = x.dtype.type(0)
                    for i in range(start, min(start + _PIECE, length)):
                        even += slope[i]
                        along += slope[i] * (row[i] - centre)
                    evens[c - first] += even
                    alongs[c - first] += along
        for c in range(first, last):
            scale = 1.0 / math.sqrt(np.float64(variance[c]) + eps)
            by_weight[c] = alongs[c - first] * scale
            by_bias[c] = evens[c - first]
            evens[c - first] /= count
            alongs[c - first] *= scale * scale / count
        if not is_whole:
            continue
        for b in range(batch):
            for c in range(first, last):
                row, slope, to, centre = x[b, c], g[b, c], into[b, c], mean[c]
                scale = x.dtype.type(weight[c] / math.sqrt(np.float64(variance[c]) + eps))
                even = x.dtype.type(evens[c - first])
                along = x.dtype.type(alongs[c - first])
                for i in range(length):
                    to[i] = (slope[i] - even - (row[i] - centre) * along) * scale
