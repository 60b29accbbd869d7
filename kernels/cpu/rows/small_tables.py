"""The tables that exact kernels along rows get: NumPy's logarithm, and the order of additions."""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import Any, Final

import numpy as np

Array = np.ndarray[Any, Any]
# NumPy's number of partial sums, and the longest part of a row that is not split in halves: see
# Note [NumPy's order of additions] in exact_row_code.py.
_SUMS: Final = 8
_LEAF: Final = 128
# Offsets in bytes of a ufunc's fields: the loops, the loops' data, the number of loops, and their
# types. The offsets are part of NumPy's stable ABI (PyUFuncObject of numpy/ufuncobject.h).
_LOOPS: Final = 32
_DATA: Final = 40
_COUNT: Final = 48
_TYPES: Final = 64


@lru_cache(maxsize=1)
def log_loop() -> tuple[int, int] | None:
    """Return the address of NumPy's inner loop for logarithms of float64, and its data; None if
    this NumPy stores them differently.
    """
    log, word = np.log, ctypes.c_uint64.from_address
    types = [one.replace("->", "") for one in log.types]
    if ctypes.c_int.from_address(id(log) + _COUNT).value != len(types):
        return None
    given = ctypes.string_at(word(id(log) + _TYPES).value, 2 * len(types))
    if given != bytes(np.dtype(letter).num for one in types for letter in one):
        return None
    at = 8 * types.index("dd")
    return tuple([word(word(id(log) + place).value + at).value for place in (_LOOPS, _DATA)])  # type: ignore[return-value]


def leaves_of(n: int) -> list[int]:
    """Return how NumPy sums a row of n numbers: the number of leaves, and two numbers for each
    leaf: its length, and how many times the last two sums are added to each other after this leaf.
    """
    found: list[int] = []

    def add(count: int) -> None:
        if count <= _LEAF:
            found.extend([count, 0])
            return
        half = count // 2
        half -= half % _SUMS
        add(half)
        add(count - half)
        found[-1] += 1

    add(n)
    return [len(found) // 2, *found]


@lru_cache(maxsize=256)
def table(n: int) -> Array:
    """Return the table for rows of n numbers; it must not be changed."""
    made = np.array([*(log_loop() or (0, 0)), *leaves_of(n)], np.uint64).view(np.int64)
    made.flags.writeable = False
    return made
