"""Counter-based random numbers from compiled loops, for callers from Python.

The random 32-bit words equal those of fastdist/random_numbers/philox.py bit for bit, and float32
numbers are computed from these words. Arithmetic is the bottleneck: LLVM computes eight blocks in
one vector, while NumPy needs a hundred calls.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ..jit.kernel_cache import Loops

Array = np.ndarray[Any, Any]
_loops = Loops("create.philox_loops")


def words_from(seed: int, first: int, blocks: int) -> Array:
    """Return the words of consecutive blocks, from `first` on. Shape (blocks, 4), dtype uint32."""
    out = np.empty((blocks, 4), np.uint32)
    _loops.run(np.uint64(first), np.uint64(seed), out)
    return out


def words_of(seed: int, places: Array, attempt: int) -> Array:
    """Return the words of the blocks at these positions of the stream. Shape (n,) -> (n, 4),
    uint64.
    """
    out = np.empty((len(places), 4), np.uint64)
    _loops.places(places, np.uint64(seed), np.uint64(attempt), out)
    return out


def uniform(words: Array) -> Array:
    """Return one float32 number in [0, 1) for each word; all are multiples of 2**-24."""
    out = np.empty(len(words), np.float32)
    _loops.uniform(words, out)
    return out


def normal(words: Array) -> Array:
    """Return one float32 number for each word, normal with mean 0 and deviation 1. There must be an
    even number of words.
    """
    out = np.empty(len(words), np.float32)
    _loops.normal(words, out)
    return out


@functools.cache
def are_stored() -> bool:
    """Return whether, at the first call of this function, the loops for words and uniform numbers
    were stored, so that they needed no compiler.
    """
    number, words = np.uint64(0), np.empty((1, 4), np.uint32)
    places = np.empty(1, np.uint64), number, number, np.empty((1, 4), np.uint64)
    return (
        _loops.run.is_stored(number, number, words)
        and _loops.places.is_stored(*places)
        and _loops.uniform.is_stored(words[0], np.empty(1, np.float32))
    )


def compile_all() -> None:
    """Compile all functions by calling each."""
    words = words_from(0, 0, 1).reshape(-1)
    words_of(0, np.zeros(1, np.uint64), 0)
    uniform(words)
    normal(words)
