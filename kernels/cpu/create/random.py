"""Kernels that fill arrays with random numbers of a Philox stream (random_numbers/philox.py)."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastdist.core.dtypes import WIDE
from fastdist.random_numbers import philox

from ..silence import silent

Array = np.ndarray[Any, Any]


@silent
def uniform(out: Array, seed: int, first: int) -> None:
    """Write numbers in [0, 1) into out, drawn from block `first` of the seed's stream on."""
    drawn = philox.uniform(seed, first, out.size, out.dtype)
    np.copyto(out, drawn.reshape(out.shape))


@silent
def open_uniform(out: Array, seed: int, first: int, wide: bool) -> None:
    """Write float64 numbers in (0, 1) into out, drawn from block `first` of the seed's stream on.
    If `wide`, the numbers have the resolution of float64, otherwise 32 random bits.
    """
    kind = np.dtype(np.float64 if wide else np.float32)
    np.copyto(out, philox.open_uniform(seed, first, out.size, kind).reshape(out.shape))


@silent
def normal(out: Array, seed: int, first: int) -> None:
    """Write normal numbers of mean 0 and deviation 1 into out, drawn from block `first` of the
    seed's stream on.
    """
    drawn = philox.normal(seed, first, out.size, np.dtype(WIDE.get(out.dtype, out.dtype)))
    np.copyto(out, drawn.reshape(out.shape), casting="unsafe")


@silent
def integers(out: Array, seed: int, first: int, low: int, high: int) -> None:
    """Write integers in [low, high) into out, drawn from block `first` of the seed's stream on."""
    drawn = philox.integers(seed, first, out.size, low, high)
    np.copyto(out, drawn.reshape(out.shape), casting="unsafe")
