"""Batch norm over samples and positions of each channel, and its gradients, on the CPU.

Memory is the bottleneck if a channel does not fit the L2 cache: x is then read three times, because
the variance is computed from deviations from the mean. Up to 1024 elements are summed in their
dtype, in several partial sums. A sum of more elements adds the sums of its pieces in float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..jit.array_objects import ARRAY, gapless
from ..jit.background import is_numpys_turn, numpy_serves
from ..jit.kernel_cache import Loops
from ..reduce.sums import add_up
from ..rows.small_rows import is_plain
from ..silence import silent
from ..small.call_facts import CallFacts, Run, ones

Array = np.ndarray[Any, Any]
_loops = Loops("nn.batch_norm_loops")


def _compile(x: Any, other: Any, gradients: bool) -> None:
    one, row = np.ones((1, 1, 2), x), np.ones(1, other)
    if gradients:
        _loops.gradients(one, one, row, row, row, one.copy(), row.copy(), row.copy(), 1.0, True)
    else:
        _loops.normalize(one, row, row, one.copy(), row.copy(), row.copy(), 1.0)


def _seen(x: Array) -> Array:
    """Return x reshaped to (samples, channels, positions), in C order."""
    made = np.ascontiguousarray(x)
    return made.reshape(x.shape[0], x.shape[1], math.prod(x.shape[2:]))


def _numbers(given: Array | None, value: float, like: Array) -> Array:
    if given is None:
        return np.full(like.shape, value, like.dtype)
    return np.ascontiguousarray(given, like.dtype)


def _columns(x: Array) -> tuple[Array, Any]:
    """Return a view of x, (samples, channels, positions), with the channels last, and the numbers
    of the other axes of the view. If there is only one position, the view has no axis of positions.
    """
    return (x[:, :, 0], 0) if x.shape[2] == 1 else (x.transpose(0, 2, 1), (0, 1))


@silent
def _normalize_columns(
    x: Array, weight: Array, bias: Array, out: Array, mean: Array, variance: Array, eps: float
) -> None:
    columns, axes = _columns(x)
    n = x.shape[0] * x.shape[2]
    np.divide(add_up(columns, axes), n, out=mean)
    away = np.subtract(columns, mean)
    np.divide(add_up(np.square(away), axes), n, out=variance)
    np.multiply(away, np.divide(weight, np.sqrt(np.add(variance, eps))), out=away, casting="unsafe")
    np.add(away, bias, out=_columns(out)[0], casting="unsafe")


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
    is_whole: bool,
) -> None:
    n = x.shape[0] * x.shape[2]
    g, (x, axes) = _columns(g)[0], _columns(x)
    scale = np.divide(1.0, np.sqrt(np.add(variance, eps)))
    normal = np.multiply(np.subtract(x, mean), scale)
    add_up(g, axes, out=by_bias)
    add_up(np.multiply(g, normal), axes, out=by_weight)
    if is_whole:
        np.multiply(normal, np.divide(by_weight, n), out=normal)
        np.subtract(np.subtract(g, np.divide(by_bias, n)), normal, out=normal)
        np.multiply(normal, np.multiply(scale, weight), out=_columns(out)[0], casting="unsafe")


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
    """Write (x - mean) / sqrt(variance + eps) * weight + bias of each channel into out, and the
    channels' statistics into mean and variance.

    x and out: (samples, channels, ...); weight, bias, mean and variance: (channels,), one dtype.
    The divisor of the variance is the number of elements.
    """
    if not x.size:
        mean.fill(np.nan)
        variance.fill(np.nan)
        return
    weight, bias = _numbers(weight, 1.0, mean), _numbers(bias, 0.0, mean)
    x = _seen(x)
    turn = x.shape[2] == 1 or is_numpys_turn(_compile, x.dtype, mean.dtype, False)
    run: Callable[..., None] = _normalize_columns if turn else _loops.normalize
    run(x, weight, bias, out.reshape(x.shape), mean, variance, eps)


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
    """Write the gradients of `channels` by x, weight and bias. Shapes as for `channels`. If out has
    no elements, the gradient by x is skipped.
    """
    if not x.size:
        by_weight.fill(0)
        by_bias.fill(0)
        return
    weight = _numbers(weight, 1.0, mean)
    g, x = _seen(g), _seen(x)
    seen = out.reshape(x.shape) if out.size else x
    turn = x.shape[2] == 1 or is_numpys_turn(_compile, x.dtype, mean.dtype, True)
    run: Callable[..., None] = _column_gradients if turn else _loops.gradients
    run(g, x, weight, mean, variance, seen, by_weight, by_bias, eps, out.size > 0)


def channels_maker(facts: CallFacts) -> Run | None:
    """Return a function that normalizes channels and returns their means and variances, for
    C-ordered inputs of one dtype. It uses only the compiled loop, and waits for it to be compiled.
    """
    if not _suits_loops(facts):
        return None
    shape, dtype, (eps,) = facts.shape, facts.dtype, facts.numbers
    channels, seen = shape[1], (shape[0], shape[1], math.prod(shape[2:]))
    one, nothing, empty = ones(channels, dtype), np.zeros(channels, dtype), np.empty
    normalize = _loops.normalize

    def of_channels(x: Array, weight: Any, bias: Any) -> tuple[Array, Array, Array]:
        weight = one if weight is None else weight
        bias = nothing if bias is None else bias
        if not (type(x) is type(weight) is type(bias) is ARRAY):
            x, weight, bias = gapless(x, weight, bias)
        out, mean, variance = empty(seen, dtype), empty(channels, dtype), empty(channels, dtype)
        normalize(x.reshape(seen), weight, bias, out, mean, variance, eps)
        return out.reshape(shape), mean, variance

    return of_channels


def gradients_maker(facts: CallFacts) -> tuple[Run | None, ...] | None:
    """Return functions for the gradients of batch norm by input, weight and bias."""
    if not _suits_loops(facts):
        return None
    shape, dtype, (eps,) = facts.shape, facts.dtype, facts.numbers
    channels, seen = shape[1], (shape[0], shape[1], math.prod(shape[2:]))
    one, empty, loop = ones(channels, dtype), np.empty, _loops.gradients

    def by_all(g: Array, others: Any, x: Array, weight: Any, wanted: Any) -> tuple[Any, Any, Any]:
        mean, variance = others
        g, x, weight, mean, variance = gapless(
            g, x, one if weight is None else weight, mean, variance
        )
        by_weight, by_bias, is_whole = empty(channels, dtype), empty(channels, dtype), wanted[0]
        x = x.reshape(seen)
        made = empty(seen, dtype) if is_whole else x
        loop(g.reshape(seen), x, weight, mean, variance, made, by_weight, by_bias, eps, is_whole)
        return made.reshape(shape) if is_whole else None, by_weight, by_bias

    return by_all, None, None


def _suits_loops(facts: CallFacts) -> bool:
    """Return whether the loops accept the arrays as they are, and calls wait for the compiler."""
    places = math.prod(facts.shape[2:])
    return is_plain(facts) and places > 1 and facts.shape[0] > 0 and not numpy_serves()
