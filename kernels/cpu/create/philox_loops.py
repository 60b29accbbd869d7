"""The loops of counter-based random numbers, compiled with Numba.

The random 32-bit words equal those of fastdist/random_numbers/philox.py bit for bit, and float32
numbers are computed from these words. Arithmetic is the bottleneck: LLVM computes eight blocks in
one vector, while NumPy needs a hundred calls.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ..jit.compiler import compiled
from ..jit.machine import sqrt
from ..pointwise.vector_math import functions

_cos: Final = functions("float64")["cos"]
_log: Final = functions("float64")["log"]
_sin: Final = functions("float64")["sin"]
_ROUNDS: Final = 10
_MULTIPLIER_0: Final = np.uint64(0xD2511F53)
_MULTIPLIER_1: Final = np.uint64(0xCD9E8D57)
_WEYL_0: Final = np.uint64(0x9E3779B9)
_WEYL_1: Final = np.uint64(0xBB67AE85)
_LOW: Final = np.uint64(0xFFFFFFFF)
_HALF: Final = np.uint64(32)


@compiled(inline=True)
def block(place: Any, key: Any, attempt: Any, words: Any, at: Any) -> None:
    """Write the four words of block number `place` into row `at` of the array `words`."""
    c0, c1, c2, c3 = place & _LOW, place >> _HALF, attempt, np.uint64(0)
    k0, k1 = key & _LOW, key >> _HALF
    for _ in range(_ROUNDS):
        product_0, product_1 = c0 * _MULTIPLIER_0, c2 * _MULTIPLIER_1
        c0, c2 = (product_1 >> _HALF) ^ c1 ^ k0, (product_0 >> _HALF) ^ c3 ^ k1
        c1, c3 = product_1 & _LOW, product_0 & _LOW
        k0, k1 = (k0 + _WEYL_0) & _LOW, (k1 + _WEYL_1) & _LOW
    words[at, 0], words[at, 1], words[at, 2], words[at, 3] = c0, c1, c2, c3


@compiled("random bits")
def run(first: Any, key: Any, into: Any) -> None:
    for i in range(len(into)):
        block(first + np.uint64(i), key, np.uint64(0), into, i)


@compiled("random bits of chosen elements")
def places(at: Any, key: Any, attempt: Any, into: Any) -> None:
    for i in range(len(into)):
        block(at[i], key, attempt, into, i)


@compiled("rand")
def uniform(words: Any, into: Any) -> None:
    for i in range(len(into)):
        into[i] = np.float32(words[i] >> np.uint32(8)) * np.float32(2.0**-24)


@compiled("randn")
def normal(words: Any, into: Any) -> None:
    for i in range(len(into) // 2):
        radius = sqrt(-2.0 * _log((np.float64(words[2 * i]) + 1.0) * 2.0**-32))
        angle = (2.0 * np.pi * 2.0**-32) * np.float64(words[2 * i + 1])
        into[2 * i], into[2 * i + 1] = radius * _cos(angle), radius * _sin(angle)
