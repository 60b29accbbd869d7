"""Kernels that fill CUDA arrays with random numbers of a Philox stream, with the CPU's bits.

`seed` is a number, or a device array of two numbers. From this array a kernel reads the seed and a
block number, to which `first` is added: see Note [Draws in a graph] in random_numbers/generator.py.
Only normal numbers differ from the CPU's, by rounding: another math library computes them in
float64.

Thread  any; queued on the current stream of out's device
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ..launch import (
    C_TYPES,
    THREADS,
    Launch,
    address_of,
    headers_for,
    int64_fields,
    launch,
    text_of,
)
from ..layout import element_strides


def uniform(out: Any, seed: Any, first: int) -> None:
    """Write numbers in [0, 1) into out, from block `first` of the seed's stream on."""
    launch(plan_draw("uniform", out, seed, first))


def open_uniform(out: Any, seed: Any, first: int, wide: bool) -> None:
    """Write float64 numbers in (0, 1) into out, from block `first` of the seed's stream on. If
    `wide`, the numbers have the resolution of float64; otherwise they have 32 random bits.
    """
    launch(plan_draw("open_uniform", out, seed, first, is_long=wide))


def normal(out: Any, seed: Any, first: int) -> None:
    """Write normal numbers of mean 0 and standard deviation 1 into out, from block `first` of the
    seed's stream on.
    """
    launch(plan_draw("normal", out, seed, first))


def integers(out: Any, seed: Any, first: int, low: int, high: int) -> None:
    """Write integers in [low, high) into out, from block `first` of the seed's stream on."""
    launch(plan_draw("integers", out, seed, first, low, high))


def plan_draw(
    name: str,
    out: Any,
    seed: Any,
    first: int,
    low: int = 0,
    high: int = 1,
    *,
    is_long: bool | None = None,
) -> list[Launch]:
    """Return the launch of uniform, open_uniform, normal or integers; no launch if out is empty.
    is_long says whether a number takes two random words. By default, float64 numbers and the
    numbers of `integers` do.
    """
    if not out.size:
        return []
    if is_long is None:
        is_long = name == "integers" or out.dtype == np.float64
    span = high - low
    # The largest multiple of span up to 2**64, minus one. Words above this are not used, because
    # they would make small numbers more frequent.
    last = (1 << 64) - (1 << 64) % span - 1
    numbers = *start_of(seed, first), *map(_signed, (low, span, last))
    shape, steps = out.shape or (1,), element_strides(out) or (0,)
    task = int64_fields(out.size, *numbers, *shape, *steps)
    blocks = -(-out.size // (2 if is_long else 4))
    source = source_of_random(out.dtype, len(shape), is_long=is_long)
    return [Launch(source, name, (-(-blocks // THREADS), 1), (out, task))]


def start_of(seed: Any, first: int) -> tuple[int, int, int]:
    """Return the fields of a task for the start of a draw: `first`, the seed, and the address of
    the seed array. If `seed` is a number, the address is 0; if it is an array, the seed is 0.
    """
    place, known = (0, seed) if isinstance(seed, int) else (address_of(seed), 0)
    return _signed(first), _signed(known), place


def _signed(number: int) -> int:
    """Return the lowest 64 bits of a number as int64."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


@functools.lru_cache(maxsize=256)
def source_of_random(dtype: np.dtype[Any], dims: int = 1, *, is_long: bool) -> str:
    """Return the CUDA source for elements of a dtype, and a number of axes."""
    return f"""{headers_for([dtype])}
typedef {C_TYPES[dtype]} Stored;
constexpr int DIMS = {dims};
constexpr int BITS = {8 if dtype.name == "bfloat16" else 11 if dtype.itemsize == 2 else 24};
constexpr bool LONG = {str(is_long).lower()};
{text_of("headers/philox.cuh", "create/random.cu")}"""
