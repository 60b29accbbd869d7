"""Functions of one half type looked up: 65,536 numbers are all that there are.

A function that takes longer than a look is computed of each pattern of bits once, by the loop that
computes few of them: so a result does not depend on how many stand beside it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from .jit import machine
from .jit.compiler import Loop
from .jit.launch import launcher
from .jit.machine import load_word

Array = Any

# Where as many are asked for as the table holds, filling it at most doubles the time of one call.
# 1e5 normal numbers take 31 us, random bits, for which the second-level cache is asked, 46; as a
# loop gelu of bfloat16 takes 64, sin 91, log 55, of float16 gelu 52 (one core of an EPYC, Zen 4).
TABLE_FROM: Final = 2**16
# Elements a thread: as numba_pointwise.py has it for cheap loops.
_SHARE: Final = 65536
_load, _store = machine.LOAD["int16"], machine.STORE["int16"]


def looking_up(
    compute: Callable[[tuple[Array, ...]], None], dtype: Any
) -> Callable[[tuple[Array, ...]], None]:
    """Return what runs compute over (x, out), both of a half type, and of many numbers looks up
    what it gave.

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
    return launcher(Loop(_pick, [2, 0, 2], _SHARE, "a lookup in tables of half types"))


def _pick(pointers: Any, count: Any) -> None:
    # The second operand is the table's address: one number for all, so without a size.
    x, out = load_word(pointers), load_word(pointers + 16)
    table = load_word(load_word(pointers + 8))
    for i in range(count):
        _store(out, i, _load(table, np.int64(_load(x, i)) & 0xFFFF))
