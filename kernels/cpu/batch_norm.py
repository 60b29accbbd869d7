"""Normalisation of channels over samples and places, and its gradients, on the CPU.

Bound by memory where a channel does not stay in the second-level cache: x is then read three times,
its deviations being summed about the mean. Sums of up to 1024 elements are made in the elements'
dtype, several side by side; those of more are added in float64.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from .compiler import compiled
from .silence import silent
from .sums import add_up

Array = np.ndarray[Any, Any]

_PIECE: Final = 1024
# Elements that lie together and are worked on at a time where channels have few places.
_TOGETHER: Final = 64


@compiled(fastmath={"reassoc", "contract"})
def _normalize(
    x: Array, weight: Array, bias: Array, out: Array, mean: Array, variance: Array, eps: float
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
            # What the rounding of the mean left over.
            rest = rests[c - first] / count
            variance[c] = totals[c - first] / count - rest * rest
        for b in range(batch):
            for c in range(first, last):
                row, to, centre, shift = x[b, c], out[b, c], mean[c], bias[c]
                scale = x.dtype.type(weight[c] / math.sqrt(np.float64(variance[c]) + eps))
                for i in range(length):
                    to[i] = (row[i] - centre) * scale + shift


@compiled(fastmath={"reassoc", "contract"})
def _gradients(
    g: Array,
    x: Array,
    weight: Array,
    mean: Array,
    variance: Array,
    out: Array,
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
                row, slope, to, centre = x[b, c], g[b, c], out[b, c], mean[c]
                scale = x.dtype.type(weight[c] / math.sqrt(np.float64(variance[c]) + eps))
                even = x.dtype.type(evens[c - first])
                along = x.dtype.type(alongs[c - first])
                for i in range(length):
                    to[i] = (slope[i] - even - (row[i] - centre) * along) * scale


def _seen(x: Array) -> Array:
    """Return x as (samples, channels, places) in C order."""
    made = np.ascontiguousarray(x)
    return made.reshape(x.shape[0], x.shape[1], math.prod(x.shape[2:]))


def _numbers(given: Array | None, value: float, like: Array) -> Array:
    if given is None:
        return np.full(like.shape, value, like.dtype)
    return np.ascontiguousarray(given, like.dtype)


@silent
def _normalize_columns(
    x: Array, weight: Array, bias: Array, out: Array, mean: Array, variance: Array, eps: float
) -> None:
    n = len(x)
    np.divide(add_up(x, 0), n, out=mean)
    away = np.subtract(x, mean)
    np.divide(add_up(np.square(away), 0), n, out=variance)
    np.multiply(away, np.divide(weight, np.sqrt(np.add(variance, eps))), out=away, casting="unsafe")
    np.add(away, bias, out=out.reshape(x.shape), casting="unsafe")


@silent
def _column_gradients(
    g: Array,
    x: Array,
    weight: Array,
    mean: Array,
    variance: Array,
    out: Array,
    by_weight: Array,
    by_bias: Array,
    eps: float,
) -> None:
    g, x = g[:, :, 0], x[:, :, 0]
    scale = np.divide(1.0, np.sqrt(np.add(variance, eps)))
    normal = np.multiply(np.subtract(x, mean), scale)
    add_up(g, 0, out=by_bias)
    add_up(np.multiply(g, normal), 0, out=by_weight)
    if out.size:
        np.multiply(normal, np.divide(by_weight, len(x)), out=normal)
        np.subtract(np.subtract(g, np.divide(by_bias, len(x))), normal, out=normal)
        scale = np.multiply(scale, weight)
        np.multiply(normal, scale, out=out.reshape(x.shape), casting="unsafe")


@silent
def channels(
    x: Array,
    weight: Array | None,
    bias: Array | None,
    out: Array,
    mean: Array,
    variance: Array,
    eps: float,
) -> None:
    """Write (x - mean) / sqrt(variance + eps) * weight + bias into out, channel by channel, the
    channels' numbers beside it.

    x and out: (samples, channels, ...); weight, bias, mean and variance: (channels,), one
    dtype. The variance is that over the count.
    """
    if not x.size:
        mean.fill(np.nan)
        variance.fill(np.nan)
        return
    weight, bias = _numbers(weight, 1.0, mean), _numbers(bias, 0.0, mean)
    x = _seen(x)
    if x.shape[2] == 1:
        _normalize_columns(x[:, :, 0], weight, bias, out, mean, variance, eps)
        return
    _normalize(x, weight, bias, out.reshape(x.shape), mean, variance, eps)


@silent
def channels_gradients(
    g: Array,
    x: Array,
    weight: Array | None,
    mean: Array,
    variance: Array,
    out: Array,
    by_weight: Array,
    by_bias: Array,
    eps: float,
) -> None:
    """Write the gradients of channels by x, weight and bias. Shapes as there; an out of no
    elements is left out.
    """
    if not x.size:
        by_weight.fill(0)
        by_bias.fill(0)
        return
    weight = _numbers(weight, 1.0, mean)
    g, x = _seen(g), _seen(x)
    if x.shape[2] == 1:
        _column_gradients(g, x, weight, mean, variance, out, by_weight, by_bias, eps)
        return
    seen = out.reshape(x.shape) if out.size else x
    _gradients(g, x, weight, mean, variance, seen, by_weight, by_bias, eps, out.size > 0)
