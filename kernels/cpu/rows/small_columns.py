"""Batch norm of a small matrix, with a channel per column, by the exact kernels along rows.

A row is a sample. Sums over samples are added in sequence, which is accurate enough for few
samples.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..jit.array_objects import ARRAY, gapless
from ..small.call_facts import CallFacts, Run, ones
from .small_groups import MOST, MOST_SAMPLES
from .small_loops import bound
from .small_rows import in_order, is_plain
from .small_tables import table

Array = np.ndarray[Any, Any]


def suits_columns(facts: CallFacts) -> bool:
    """Return whether these kernels support a call: several samples, one position per channel."""
    shape = facts.shape
    return (
        is_plain(facts)
        and math.prod(shape[2:]) == 1
        and 0 < math.prod(shape) <= MOST
        and shape[0] <= MOST_SAMPLES
    )


def batch_norm(facts: CallFacts) -> Run:
    """Return the function for batch norm. It returns the result, and the columns' means and
    variances.
    """
    shape, dtype, eps = facts.shape, facts.dtype, float(facts.numbers[0])
    samples, n = shape[:2]
    one, nothing, lengths = ones(n, dtype), np.zeros(n, dtype), table(n)
    part, empty, array_type = 1.0 / samples, np.empty, ARRAY
    add_up = bound("small_column_totals", dtype, samples, n, part, 1.0)
    spread = bound("small_column_spreads", dtype, samples, n, part, 1.0)
    numbers = bound("small_column_numbers", dtype, 1, n, part, eps)
    apply = bound("small_column_norm", dtype, samples, n, part)

    def of_columns(x: Array, weight: Any, bias: Any) -> tuple[Array, Array, Array]:
        if weight is None:
            weight = one
        if bias is None:
            bias = nothing
        if not (type(x) is type(weight) is type(bias) is array_type):
            x, weight, bias = gapless(x, weight, bias)
        total, squares, rest = empty(n, dtype), empty(n, dtype), empty(n, dtype)
        mean, variance, scale = empty(n, dtype), empty(n, dtype), empty(n, dtype)
        shift, out = empty(n, dtype), empty(shape, dtype)
        add_up((x, total, lengths))
        spread((x, total, squares, rest, lengths))
        numbers((total, squares, rest, weight, bias, mean, variance, scale, shift, lengths))
        apply((x, total, scale, shift, out, lengths))
        return out, mean, variance

    return of_columns


def batch_norm_gradient(facts: CallFacts) -> tuple[Run | None, ...]:
    """Return functions for the gradients of batch norm by input, weight and bias, computed
    together.
    """
    shape, dtype, eps = facts.shape, facts.dtype, float(facts.numbers[0])
    samples, n = shape[:2]
    one, lengths, empty = ones(n, dtype), table(n), np.empty
    scales = bound("small_column_scales", dtype, 1, n, 0.0, eps)
    sums = bound("small_column_sums", dtype, samples, n, 0.0, 1.0)
    apply = bound("small_column_gradient", dtype, samples, n, 1.0 / samples)

    def by_all(g: Array, others: Any, x: Array, weight: Any, wanted: Any) -> tuple[Any, Any, Any]:
        mean, variance = others
        if weight is None:
            weight = one
        if not in_order(g, x, weight, mean, variance):
            g, x, weight, mean, variance = gapless(g, x, weight, mean, variance)
        scale, by_weight, by_bias = empty(n, dtype), empty(n, dtype), empty(n, dtype)
        scales((variance, scale, lengths))
        sums((g, x, mean, scale, by_weight, by_bias, lengths))
        if not wanted[0]:
            return None, by_weight, by_bias
        out = empty(shape, dtype)
        apply((g, x, mean, scale, weight, by_weight, by_bias, out, lengths))
        return out, by_weight, by_bias

    return by_all, None, None


def follower(channels: int, count: int, dtype: Any, momentum: float) -> Run:
    """Return the function that moves running means and variances of channels, by momentum, towards
    the means and variances of a batch, which has `count` numbers per channel.
    """
    larger = count / max(count - 1, 1)
    launch, lengths = bound("small_followed", dtype, 1, channels, momentum, larger), table(channels)

    def follow(mean: Array, variance: Array, to_mean: Array, to_variance: Array) -> None:
        launch((mean, variance, to_mean, to_variance, lengths))

    return follow
