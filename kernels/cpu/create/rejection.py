"""Random numbers drawn by rejection, written into arrays: see random_numbers/rejection.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fastdist.random_numbers import rejection

from ..silence import silent

Array = np.ndarray[Any, Any]


@silent
def gamma(concentration: Array, out: Array, seed: int, first: int) -> None:
    """Write gamma numbers of scale 1 into out; 0 for a concentration of 0 and below."""
    _write(rejection.gamma, (concentration,), out, seed, first)


@silent
def log_gamma(concentration: Array, out: Array, seed: int, first: int) -> None:
    """Write the logarithms of gamma numbers of scale 1 into out; -inf for a concentration of 0."""
    _write(rejection.log_gamma, (concentration,), out, seed, first)


@silent
def poisson(rate: Array, out: Array, seed: int, first: int) -> None:
    """Write into out how many events of a rate occur; NaN for an invalid rate."""
    _write(rejection.poisson, (rate,), out, seed, first)


@silent
def binomial(count: Array, prob: Array, out: Array, seed: int, first: int) -> None:
    """Write into out how many of count succeed, each with prob."""
    _write(rejection.binomial, (count, prob), out, seed, first)


def _write(
    draw: Callable[..., Array], given: tuple[Array, ...], out: Array, seed: int, first: int
) -> None:
    values = [one.astype(np.float64).reshape(-1) for one in given]
    np.copyto(out, draw((seed, first), *values).reshape(out.shape), casting="unsafe")
