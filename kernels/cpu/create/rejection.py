"""Random numbers by rejection sampling, written into arrays: see random_numbers/rejection.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fastdist.random_numbers import rejection

Array = np.ndarray[Any, Any]


def _write(
    draw: Callable[..., Array], given: tuple[Array, ...], out: Array, seed: int, first: int
) -> None:
    values = [one.astype(np.float64).reshape(-1) for one in given]
    with np.errstate(all="ignore"):
        np.copyto(out, draw((seed, first), *values).reshape(out.shape), casting="unsafe")


def gamma(concentration: Array, out: Array, seed: int, first: int) -> None:
    """Write gamma-distributed numbers of scale 1 into out; 0 for a concentration of 0 or less."""
    _write(rejection.gamma, (concentration,), out, seed, first)


def log_gamma(concentration: Array, out: Array, seed: int, first: int) -> None:
    """Write logarithms of gamma-distributed numbers of scale 1; -inf for a concentration of 0."""
    _write(rejection.log_gamma, (concentration,), out, seed, first)


def poisson(rate: Array, out: Array, seed: int, first: int) -> None:
    """Write Poisson-distributed counts with the mean `rate` into out; NaN for an invalid rate."""
    _write(rejection.poisson, (rate,), out, seed, first)


def binomial(count: Array, prob: Array, out: Array, seed: int, first: int) -> None:
    """Write into out the number of successes in `count` trials with success probability `prob`."""
    _write(rejection.binomial, (count, prob), out, seed, first)
