"""Random numbers by rejection sampling: gamma, Poisson and binomial.

Element i of a draw uses block i of the blocks that the draw has reserved. Attempt n to draw the
element uses that block's words for attempt number n (see Note [One stream on every device]). So a
rejection of one element does not change other elements.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from . import philox

Array = np.ndarray[Any, Any]
Stream = tuple[int, int]

# An attempt number that no rejection reaches. The words of this attempt scale the gamma numbers of
# concentrations below 1.
_SCALING_ATTEMPT: Final = 1 << 31
# For means from this one on, numbers are drawn by rejection; for smaller means, by `_counted`.
_MANY: Final = 10.0


def gamma(stream: Stream, concentration: Array) -> Array:
    """Return gamma-distributed numbers with scale 1; 0 for a concentration <= 0, NaN for NaN.

    Source  Marsaglia, Tsang 2000, "A simple method for generating gamma variables"
    """
    out, places, fractions = _unscaled_gamma(stream, concentration)
    out[places] *= fractions ** (1.0 / concentration[places])
    return out


def log_gamma(stream: Stream, concentration: Array) -> Array:
    """Return the logarithms of the numbers that `gamma` draws from the same stream. Where `gamma`
    underflows to 0, its logarithm is still finite here.
    """
    out, places, fractions = _unscaled_gamma(stream, concentration)
    out = np.log(out)
    out[places] += np.log(fractions) / concentration[places]
    return out


def _unscaled_gamma(stream: Stream, concentration: Array) -> tuple[Array, Array, Array]:
    """Return gamma-distributed numbers, the indices of elements with a concentration below 1, and a
    uniform number for each such element. Numbers at these indices are drawn with the concentration
    plus 1; the caller must scale them by a power of the uniform numbers.
    """
    out = np.where(np.isnan(concentration), np.nan, np.maximum(concentration, 0.0))
    tried = np.isfinite(concentration) & (concentration > 0)
    small = tried & (concentration < 1)
    d = np.where(small, concentration + 1.0, concentration) - 1.0 / 3.0

    def attempt(elements: Array, words: Array) -> tuple[Array, Array]:
        x, u = _normal(words[0], words[1]), _fraction(words[2], words[3])
        own = d[elements]
        root = 1.0 + x / np.sqrt(9.0 * own)
        v = root * root * root
        taken = v > 0
        log_v = np.log(np.where(taken, v, 1.0))
        taken &= np.log(u) < 0.5 * x * x + own * (1.0 - v + log_v)
        return own * v, taken

    _try(stream, np.flatnonzero(tried), attempt, out)
    places = np.flatnonzero(small)
    words = philox.words_at(*stream, places, _SCALING_ATTEMPT)
    return out, places, _fraction(words[0], words[1])


def poisson(stream: Stream, rate: Array) -> Array:
    """Return Poisson-distributed numbers of events with the given rates; NaN for an invalid rate.

    Source  Hoermann 1993, "The transformed rejection method for generating Poisson random
            variables" (PTRS), for rates from 10 on
    """
    out = np.where(np.isinf(rate), rate, 0.0)
    out[~(rate >= 0)] = np.nan
    few = np.flatnonzero((rate >= 0) & (rate < _MANY))
    out[few] = _counted(stream, few, np.exp(-rate[few]), lambda k: rate[few] / k)
    b = 0.931 + 2.53 * np.sqrt(rate)
    a = -0.059 + 0.02483 * b

    def attempt(elements: Array, words: Array) -> tuple[Array, Array]:
        mean, scale, slope = rate[elements], b[elements], a[elements]
        u, v = _fraction(words[0], words[1]) - 0.5, _fraction(words[2], words[3])
        room = 0.5 - np.abs(u)
        k = np.floor((2.0 * slope / room + scale) * u + mean + 0.43)
        certain = (room >= 0.07) & (v <= 0.9277 - 3.6224 / (scale - 2.0))
        possible = (k >= 0) & ((room >= 0.013) | (v <= room))
        inverse = 1.1239 + 1.1328 / (scale - 3.4)
        left = np.log(v * inverse / (slope / (room * room) + scale))
        right = k * np.log(mean) - mean - _log_factorial(np.maximum(k, 0.0))
        return k, certain | (possible & (left <= right))

    _try(stream, np.flatnonzero((rate >= _MANY) & np.isfinite(rate)), attempt, out)
    return out


def binomial(stream: Stream, count: Array, prob: Array) -> Array:
    """Return numbers of successes in `count` trials with probability `prob`; NaN for NaN arguments.

    Source  Hoermann 1993, "The generation of binomial random variates" (BTRS), for means from 10 on
    """
    out = np.where(np.isnan(count) | np.isnan(prob), np.nan, 0.0)
    whole = np.floor(np.maximum(np.nan_to_num(count), 0.0))
    mirrored = prob > 0.5
    p = np.nan_to_num(np.clip(np.where(mirrored, 1.0 - prob, prob), 0.0, 0.5))
    mean, ratio = whole * p, p / (1.0 - p)
    few = np.flatnonzero((mean < _MANY) & ~np.isnan(out))
    out[few] = np.minimum(
        _counted(
            stream,
            few,
            np.exp(whole[few] * np.log1p(-p[few])),
            lambda k: ratio[few] * np.maximum(whole[few] + 1.0 - k, 0.0) / k,
        ),
        whole[few],
    )
    spread = np.sqrt(mean * (1.0 - p))
    b = 1.15 + 2.53 * spread
    a = -0.0873 + 0.0248 * b + 0.01 * p
    mode = np.floor((whole + 1.0) * p)

    def attempt(elements: Array, words: Array) -> tuple[Array, Array]:
        n, scale, slope, m = whole[elements], b[elements], a[elements], mode[elements]
        u, v = _fraction(words[0], words[1]) - 0.5, _fraction(words[2], words[3])
        room = 0.5 - np.abs(u)
        k = np.floor((2.0 * slope / room + scale) * u + mean[elements] + 0.5)
        bound = 0.92 - 4.2 / scale
        certain = (room >= 0.07) & (v <= bound)
        possible = (k >= 0) & (k <= n)
        inside = np.clip(k, 0.0, n)
        alpha = (2.83 + 5.1 / scale) * spread[elements]
        left = np.log(v * alpha / (slope / (room * room) + scale))
        right = _log_factorial(m) + _log_factorial(n - m)
        right -= _log_factorial(inside) + _log_factorial(n - inside)
        right += (inside - m) * np.log(ratio[elements])
        return k, certain | (possible & (left <= right))

    _try(stream, np.flatnonzero((mean >= _MANY) & ~np.isnan(out)), attempt, out)
    return np.where(mirrored, whole - out, out)


def _try(
    stream: Stream,
    elements: Array,
    attempt: Callable[[Array, Array], tuple[Array, Array]],
    out: Array,
) -> None:
    """Call `attempt` until it has accepted a number for each element, and write the numbers to
    `out`.
    """
    number = 0
    while elements.size:
        found, taken = attempt(elements, philox.words_at(*stream, elements, number))
        out[elements[taken]] = found[taken]
        elements = elements[~taken]
        number += 1


def _counted(
    stream: Stream, elements: Array, chance: Array, factor: Callable[[float], Array]
) -> Array:
    """Return numbers by inversion: count up while a uniform number exceeds the cumulative
    probability. `chance` is the probability of 0; each further probability is factor(count) times
    the previous one.
    """
    words = philox.words_at(*stream, elements, 0)
    left = _fraction(words[0], words[1]) - chance
    found = np.zeros(len(elements))
    k = 0.0
    # Beyond 200, for means below 10, probabilities underflow in float64.
    while k < 200.0 and np.any(left > 0):
        k += 1.0
        found += left > 0
        chance = chance * factor(k)
        left = left - chance
    return found


def _fraction(low: Array, high: Array) -> Array:
    """Return numbers in (0, 1) with 52 random bits."""
    words = low.astype(np.uint64) | high.astype(np.uint64) << np.uint64(32)
    return ((words >> np.uint64(12)) + 0.5) * 2.0**-52


def _normal(u: Array, v: Array) -> Array:
    return np.sqrt(-2.0 * np.log((u + 0.5) * 2.0**-32)) * np.cos(2.0 * np.pi * 2.0**-32 * v)


_LOG_FACTORIALS: Final = np.array([math.lgamma(k + 1.0) for k in range(16)])


def _log_factorial(k: Array) -> Array:
    """Return log(k!): from a table for k < 16, and by Stirling's series for larger k."""
    x = np.maximum(k, 15.0) + 1.0
    y = 1.0 / (x * x)
    series = (1.0 / 12.0 - y * (1.0 / 360.0 - y * (1.0 / 1260.0 - y / 1680.0))) / x
    large = (x - 0.5) * np.log(x) - x + 0.5 * math.log(2.0 * math.pi) + series
    return np.where(k < 16, _LOG_FACTORIALS[np.where(k < 16, k, 15.0).astype(np.int64)], large)
