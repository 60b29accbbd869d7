"""Rows of few numbers less their means, as exactly as if the means had not been rounded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ..silence import silent
from .call_facts import ones

Array = np.ndarray[Any, Any]
# A product with ones adds one number after the other. Numbers that are alike are then all rounded
# in one direction: of a thousand, the mean is 5e-6 of itself off at worst, and where it is many
# deviations from 0, that is more than a deviation may be off. What a row has left, once its mean is
# taken away, tells; a second mean, of that, is of so small numbers that it is exact. The squares
# are added up by np.vecdot, in many sums at once: five times as exact, and as fast as by ones.
_STEPS: Final = 3
# Of so few numbers a product with ones is exact enough.
_SHORT: Final = 16


def squared_rest(length: int, share: float) -> float:
    """Return by what a row's sum of squares is multiplied for the square of what a row may have
    left that lies so small a share of a deviation beside its mean.
    """
    return length * share * share


@silent
def squares_of(length: int, dtype: Any) -> Callable[[Array], Array]:
    """Return the function that gives the sums of squares of rows of so many numbers."""
    inner, square, one = np.vecdot, np.square, ones(length, dtype)
    if length <= _SHORT:
        return lambda x: square(x).dot(one)
    return lambda x: inner(x, x)


@silent
def centred(x: Array, mean: Array, column: Array, n: Any) -> tuple[Array, Array]:
    """Return the means of x's rows, of which these are near, and the rows less them."""
    away = np.subtract(x, mean.reshape(-1, 1))
    for _ in range(_STEPS):
        rest = np.divide(away.dot(column), n)
        mean = np.add(mean, rest)
        np.subtract(away, rest.reshape(-1, 1), away)
    return mean, away
