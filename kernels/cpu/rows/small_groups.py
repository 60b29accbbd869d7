"""Group, instance and batch norm of small tensors, by the exact kernels along rows.

A row is a group of channels of one sample. Weight and bias are first expanded to one number for
each element of a sample. Each group of a sample then uses its own row of weight and bias. See
small_rows.py for what functions return.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from ..jit.array_objects import ARRAY, gapless
from ..silence import silent
from ..small.call_facts import CallFacts, Run, ones
from .small_loops import bound
from .small_rows import in_order, is_plain
from .small_tables import table

Array = np.ndarray[Any, Any]
# These kernels serve up to MOST numbers, in one thread. They add the gradients of up to
# MOST_SAMPLES samples in sequence.
MOST: Final = 1 << 16
MOST_SAMPLES: Final = 256
# If channels have at least this many positions, a row is a channel with its weight and bias. Rows
# of a whole group take longer (group norm of 2 x 4 x 1250 takes 10.4 us instead of 7.6, Zen 3).
_OWN_ROW: Final = 16


def _are_few(facts: CallFacts) -> bool:
    """Return whether these kernels support a call."""
    return is_plain(facts) and 0 < math.prod(facts.shape) <= MOST


def _filler(channels: int, places: int, dtype: Any) -> Run:
    """Return the function that expands weight and bias to a row per channel, with the channel's
    number at each position. If weight or bias is None, the numbers are 1 or 0.
    """
    one, nothing = ones(channels, dtype), np.zeros(channels, dtype)
    empty, array_type, lengths = np.empty, ARRAY, table(places)
    if places > 1:
        launch = bound("small_channel_numbers", dtype, channels, places)

    def fill(weight: Any, bias: Any) -> tuple[Array, Array]:
        if weight is None:
            weight = one
        if bias is None:
            bias = nothing
        if not (type(weight) is type(bias) is array_type):
            weight, bias = gapless(weight, bias)
        if places == 1:
            return weight, bias
        scale, shift = empty((channels, places), dtype), empty((channels, places), dtype)
        launch((weight, bias, scale, shift, lengths))
        return scale, shift

    return fill


@silent
def _over_places(by_weight: Array, by_bias: Array, is_wanted: bool) -> tuple[Any, Any]:
    """Return the gradients summed over each channel's positions; None if they are not needed."""
    if not is_wanted:
        return None, None
    if by_weight.shape[1] == 1:
        return by_weight.reshape(-1), by_bias.reshape(-1)
    return np.add.reduce(by_weight, 1), np.add.reduce(by_bias, 1)


def _sizes(facts: CallFacts) -> tuple[int, int, int, int, int]:
    """Return the numbers of channels, positions, groups and rows, and the length of a row."""
    shape, groups = facts.shape, facts.numbers[0]
    channels, places = shape[1], math.prod(shape[2:])
    return channels, places, groups, shape[0] * groups, channels // groups * places


def group_norm(facts: CallFacts) -> Run | None:
    """Return the function for group norm. It returns the result, and the rows' means and
    deviations.
    """
    if not _are_few(facts):
        return None
    channels, places, groups, rows, n = _sizes(facts)
    if places >= _OWN_ROW:
        return _group_norm_by_channels(facts)
    shape, dtype, eps = facts.shape, facts.dtype, float(facts.numbers[1])
    fill, column, lengths = _filler(channels, places, dtype), (rows, 1), table(n)
    launch = bound("small_group_norm", dtype, rows, n, eps, float(groups))
    empty, array_type = np.empty, ARRAY

    def of_groups(x: Array, weight: Any, bias: Any) -> tuple[Array, Array, Array]:
        if type(x) is not array_type:
            (x,) = gapless(x)
        scale, shift = fill(weight, bias)
        out, mean, deviation = empty(shape, dtype), empty(column, dtype), empty(column, dtype)
        launch((x, scale, shift, out, mean, deviation, lengths))
        return out, mean, deviation

    return of_groups


def _group_norm_by_channels(facts: CallFacts) -> Run:
    """Return the function for group norm with a channel per row."""
    channels, places, groups, rows, n = _sizes(facts)
    shape, dtype, eps = facts.shape, facts.dtype, float(facts.numbers[1])
    one, nothing = ones(channels, dtype), np.zeros(channels, dtype)
    column, lengths, empty, array_type = (rows, 1), table(n), np.empty, ARRAY
    of_each, by_samples = channels // groups, shape[0] * channels
    numbers = bound("small_group_numbers", dtype, rows, n, eps)
    apply = bound("small_group_channels", dtype, by_samples, places, of_each, float(channels))
    of_row = table(places)

    def of_groups(x: Array, weight: Any, bias: Any) -> tuple[Array, Array, Array]:
        if weight is None:
            weight = one
        if bias is None:
            bias = nothing
        if not (type(x) is type(weight) is type(bias) is array_type):
            x, weight, bias = gapless(x, weight, bias)
        out, mean, deviation = empty(shape, dtype), empty(column, dtype), empty(column, dtype)
        middles, begins, scales = empty(rows, dtype), empty(rows, dtype), empty(rows, dtype)
        numbers((x, mean, deviation, middles, begins, scales, lengths))
        apply((x, middles, begins, scales, weight, bias, out, of_row))
        return out, mean, deviation

    return of_groups


def group_norm_gradient(facts: CallFacts) -> tuple[Run | None, ...] | None:
    """Return functions for the gradients of group norm by input, weight and bias, computed
    together.
    """
    if not _are_few(facts) or facts.shape[0] > MOST_SAMPLES:
        return None
    channels, places, groups, rows, n = _sizes(facts)
    shape, dtype, full = facts.shape, facts.dtype, (channels, places)
    fill, lengths, empty = _filler(channels, places, dtype), table(n), np.empty
    alone = bound("small_group_norm_gradient", dtype, rows, n, 0.0, float(groups))
    all_three = bound("small_group_norm_gradients", dtype, rows, n, 0.0, float(groups))

    def by_all(g: Array, others: Any, x: Array, weight: Any, wanted: Any) -> tuple[Any, Any, Any]:
        mean, deviation = others
        if not in_order(g, x, mean, deviation):
            g, x, mean, deviation = gapless(g, x, mean, deviation)
        (scale, _), made = fill(weight, None), empty(shape, dtype)
        if not (wanted[1] or wanted[2]):
            alone((g, x, mean, deviation, scale, made, lengths))
            return made, None, None
        by_weight, by_bias = empty(full, dtype), empty(full, dtype)
        all_three((g, x, mean, deviation, scale, made, by_weight, by_bias, lengths))
        return made, *_over_places(by_weight, by_bias, True)

    return by_all, None, None


def by_known(facts: CallFacts) -> Run | None:
    """Return the function for batch norm by given means and variances."""
    if not _are_few(facts):
        return None
    shape, dtype, eps = facts.shape, facts.dtype, float(facts.numbers[0])
    channels, places = shape[1], math.prod(shape[2:])
    one, nothing = ones(channels, dtype), np.zeros(channels, dtype)
    n, empty, array_type = channels * places, np.empty, ARRAY
    lengths = table(places)  # its order of additions is not used: nothing is summed
    has_rows = places >= _OWN_ROW
    if has_rows:
        rows, turns = shape[0] * channels, float(channels)
        at_once = bound("small_known_channels", dtype, rows, places, eps, turns)
    else:
        numbers = bound("small_known_numbers", dtype, channels, places, eps)
        launch = bound("small_scaled", dtype, shape[0], n)

    def of_all(x: Array, mean: Any, variance: Any, weight: Any, bias: Any) -> Array:
        if weight is None:
            weight = one
        if bias is None:
            bias = nothing
        for given in (x, mean, variance, weight, bias):
            if type(given) is not array_type:
                x, mean, variance, weight, bias = gapless(x, mean, variance, weight, bias)
                break
        out = empty(shape, dtype)
        if has_rows:
            at_once((x, weight, bias, mean, variance, out, lengths))
            return out
        scale, shift = empty(n, dtype), empty(n, dtype)
        numbers((weight, bias, mean, variance, scale, shift, lengths))
        launch((x, scale, shift, out, lengths))
        return out

    return of_all


def by_known_gradient(facts: CallFacts) -> tuple[Run | None, ...] | None:
    """Return functions for the gradients of by_known by input, weight and bias, computed
    together.
    """
    if not _are_few(facts) or facts.shape[0] > MOST_SAMPLES:
        return None
    shape, dtype, eps = facts.shape, facts.dtype, float(facts.numbers[0])
    channels, places = shape[1], math.prod(shape[2:])
    one, n, full, empty = ones(channels, dtype), channels * places, (channels, places), np.empty
    lengths = table(n)  # its order of additions is not used: nothing is summed along a row
    parts = bound("small_known_parts", dtype, channels, places, eps)
    all_three = bound("small_known_gradients", dtype, shape[0], n, 0.0, 1.0)

    def by_all(
        g: Array, x: Array, mean: Array, variance: Array, weight: Any, wanted: Any
    ) -> tuple[Any, Any, Any]:
        if weight is None:
            weight = one
        if not in_order(g, x, mean, variance, weight):
            g, x, mean, variance, weight = gapless(g, x, mean, variance, weight)
        times, middle, scale = empty(full, dtype), empty(full, dtype), empty(full, dtype)
        by_weight, by_bias, made = empty(full, dtype), empty(full, dtype), empty(shape, dtype)
        parts((weight, mean, variance, times, middle, scale, lengths))
        all_three((g, x, times, middle, scale, made, by_weight, by_bias, lengths))
        return made, *_over_places(by_weight, by_bias, wanted[3] or wanted[4])

    return by_all, None, None, None, None
