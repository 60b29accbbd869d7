"""Random numbers by rejection sampling, on CUDA arrays.

The numbers differ from the CPU's only by rounding of logarithms and roots. Element i uses only
block first + i of the seed's Philox stream.

`seed` is as in random.py; inputs and out are in C order and have one dtype.

Thread  any; queued on the current stream of out's device
"""

from __future__ import annotations

import functools
import math
from typing import Any, Final

import numpy as np

from ..launch import C_TYPES, THREADS, Launch, headers_for, int64_fields, launch, text_of
from .random import start_of

_TABLE: Final = ", ".join(repr(math.lgamma(k + 1.0)) for k in range(16))


def gamma(concentration: Any, out: Any, seed: Any, first: int) -> None:
    """Write gamma-distributed numbers of scale 1 into out; 0 for a concentration of 0 or less."""
    launch(plan_tried("gamma", (concentration,), out, seed, first))


def log_gamma(concentration: Any, out: Any, seed: Any, first: int) -> None:
    """Write logarithms of gamma-distributed numbers of scale 1; -inf for a concentration of 0."""
    launch(plan_tried("log_gamma", (concentration,), out, seed, first))


def poisson(rate: Any, out: Any, seed: Any, first: int) -> None:
    """Write Poisson-distributed counts with the mean `rate` into out; NaN for an invalid rate."""
    launch(plan_tried("poisson", (rate,), out, seed, first))


def binomial(count: Any, prob: Any, out: Any, seed: Any, first: int) -> None:
    """Write into out the number of successes in `count` trials with success probability `prob`."""
    launch(plan_tried("binomial", (count, prob), out, seed, first))


def plan_tried(name: str, given: tuple[Any, ...], out: Any, seed: Any, first: int) -> list[Launch]:
    """Return the launch of gamma, log_gamma, poisson or binomial; no launch if out is empty."""
    if not out.size:
        return []
    grid = (-(-out.size // THREADS), 1)
    task = int64_fields(out.size, *start_of(seed, first))
    return [Launch(source_of_rejection(out.dtype), f"draw_{name}", grid, (*given, out, task))]


@functools.lru_cache(maxsize=16)
def source_of_rejection(dtype: np.dtype[Any]) -> str:
    """Return the CUDA source for elements of a floating dtype."""
    return f"""{headers_for([dtype])}
typedef {C_TYPES[dtype]} Stored;
__device__ const double LOG_FACTORIALS[16] = {{{_TABLE}}};
{text_of("headers/philox.cuh", "create/rejection.cu")}"""
