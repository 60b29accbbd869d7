"""Lookup tables for functions of one half type, which has only 65,536 values.

A function that is slower than a look-up is computed once for each bit pattern. The table is filled
by the same loop that computes few numbers, so a result does not depend on how many numbers a call
computes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from .jit.kernel_cache import find_loop
from .jit.launch import launcher

Array = Any

# If a call computes as many numbers as the table has entries, it takes at most twice as long when
# it fills the table first. 1e5 look-ups take 31 us if the numbers are normally distributed, and 46
# if they are random bits, for which the table needs the L2 cache. A loop that computes 1e5 numbers
# takes 64 us for gelu of bfloat16, 91 for sin, 55 for log, and 52 for gelu of float16 (one core of
# an EPYC, Zen 4).
TABLE_FROM: Final = 2**16


def looking_up(
    compute: Callable[[tuple[Array, ...]], None], dtype: Any
) -> Callable[[tuple[Array, ...]], None]:
    """Return a function that runs `compute` over (x, out), both of a half type. For many numbers it
    uses a table of the results.

    Thread  any, several at once: two threads may fill the table, with the same numbers
    """
    kept: list[tuple[Array, Array]] = []
    look = _look()  # before the first call, so that the loop can be compiled in the background

    def run(operands: tuple[Array, ...]) -> None:
        x, out = operands
        if out.size < TABLE_FROM:
            compute(operands)
            return
        if not kept:
            table = np.empty(2**16, dtype)
            compute((np.arange(2**16, dtype=np.uint16).view(dtype), table))
            kept.append((table, np.array(table.ctypes.data)))
        look((x, kept[0][1], out))

    return run


@functools.cache
def _look() -> Callable[[tuple[Array, ...]], None]:
    return launcher(find_loop("half_table_loops", "loop"))
