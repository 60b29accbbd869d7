"""Functions of one half type looked up: 65,536 numbers are all that there are.

A function that takes longer than a look-up is computed once for each bit pattern, by the loop for
few numbers: so a result does not depend on how many numbers are computed with it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from .jit.kernel_cache import find_loop
from .jit.launch import launcher

Array = Any

# A call with as many numbers as the table has entries at most doubles in time by filling it. 1e5
# normal numbers take 31 us, random bits, which need the second-level cache, 46; as a loop gelu of
# bfloat16 takes 64, sin 91, log 55, of float16 gelu 52 (one core of an EPYC, Zen 4).
TABLE_FROM: Final = 2**16


def looking_up(
    compute: Callable[[tuple[Array, ...]], None], dtype: Any
) -> Callable[[tuple[Array, ...]], None]:
    """Return a function that runs compute over (x, out), both of a half type, and uses a table of
    its results where there are many numbers.

    Thread  any, several at once: two may fill the table, with the same numbers
    """
    kept: list[tuple[Array, Array]] = []
    look = _look()  # now, for what is compiled now may be so in the background

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
