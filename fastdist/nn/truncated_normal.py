"""Truncated normal random numbers, by rejection sampling that needs few rounds for any bounds."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.dtypes import float_limits
from ..random_numbers.generator import Generator
from ..tensor.tensor import Tensor

Array = np.ndarray[Any, Any]
# A function that takes a count, and returns as many candidates and a mask of the accepted ones.
Propose = Callable[[int], tuple[Array, Array]]

_REAL = np.dtype(np.float64)
# If both bounds are on one side of the mean, more than this many standard deviations away,
# exponential candidates are accepted more often (at least 44 %) than normal candidates.
_TAIL_FROM = 0.5
# If the bounds are less than this many standard deviations apart, uniform candidates are accepted
# more often (at least 45 %) than normal candidates.
_NARROW_BELOW = 1.5


def draw_truncated(
    generator: Generator, like: Tensor, mean: float, std: float, a: float, b: float
) -> Array:
    """Return numbers of a normal distribution truncated to [a, b], in the shape of `like`.

    The numbers are float64. They stay in [a, b] when they are rounded to the dtype of `like`.

    Source  Robert 1995, "Simulation of truncated normal variables"
    """
    found = _in_turns(math.prod(like.shape), _proposal(generator, mean, std, a, b))
    return np.clip(found, *_representable(like, a, b)).reshape(like.shape)


def _proposal(generator: Generator, mean: float, std: float, a: float, b: float) -> Propose:
    low, high = (a - mean) / std, (b - mean) / std
    if low > _TAIL_FROM or high < -_TAIL_FROM:
        return _in_a_tail(generator, std, a, b, low, high)
    if high - low < _NARROW_BELOW:
        return _between_close_bounds(generator, a, b, low, high)

    def propose(count: int) -> tuple[Array, Array]:
        drawn = mean + std * generator.normal((count,), _REAL)
        return drawn, (drawn >= a) & (drawn <= b)

    return propose


def _in_a_tail(
    generator: Generator, std: float, a: float, b: float, low: float, high: float
) -> Propose:
    """Return a function that draws exponential distances from the bound nearer to the mean."""
    nearest, sign, rate = (a, 1.0, low) if low > 0 else (b, -1.0, -high)
    # The probability that an exponential number is at most the distance between the bounds.
    inside = -math.expm1(-rate * (high - low)) if high > low else 0.0

    def propose(count: int) -> tuple[Array, Array]:
        distance = -np.log1p(-inside * generator.uniform((count,), _REAL)) / rate
        kept = generator.uniform((count,), _REAL) < np.exp(-0.5 * distance * distance)
        return nearest + sign * std * distance, kept

    return propose


def _between_close_bounds(
    generator: Generator, a: float, b: float, low: float, high: float
) -> Propose:
    """Return a function that draws uniform numbers between the bounds."""
    peak = max(low, min(high, 0.0))

    def propose(count: int) -> tuple[Array, Array]:
        share = generator.uniform((count,), _REAL)
        place = low + (high - low) * share
        kept = generator.uniform((count,), _REAL) < np.exp(0.5 * (peak * peak - place * place))
        return a * (1.0 - share) + b * share, kept

    return propose


def _in_turns(count: int, propose: Propose) -> Array:
    found, kept = propose(count)
    wrong = np.flatnonzero(~kept)
    while wrong.size:
        again, kept = propose(wrong.size)
        found[wrong] = again
        wrong = wrong[~kept]
    return found


def _representable(like: Tensor, a: float, b: float) -> tuple[float, float]:
    """Return the least and greatest value of `like`'s dtype in [a, b]; a and b if it has none."""
    dtype = like.dtype
    if not dtype.is_floating_point:
        return a, b
    kind: Any = dtype.numpy.type
    most = float(float_limits(dtype).max)
    if a > most or b < -most:
        return a, b
    low, high = kind(max(a, -most)), kind(min(b, most))
    if float(low) < a:
        low = np.nextafter(low, kind(most))
    if float(high) > b:
        high = np.nextafter(high, kind(-most))
    return (float(low), float(high)) if low <= high else (a, b)
