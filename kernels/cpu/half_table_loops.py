"""The compiled loop that looks up numbers of half types in a table."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from .jit import machine
from .jit.compiler import Loop
from .jit.machine import load_word

# The least number of elements per thread, the same as for cheap loops in numba_pointwise.py.
_SHARE: Final = 65536
_load, _store = machine.LOAD["int16"], machine.STORE["int16"]


def loop() -> Loop:
    """Return the loop over (numbers, the address of a table of 65,536 entries, results)."""
    return Loop(_pick, [2, 0, 2], _SHARE, "a lookup in tables of half types")


def _pick(pointers: Any, count: Any) -> None:
    # The second operand, the table's address, is one number for all elements: its item size is 0.
    x, out = load_word(pointers), load_word(pointers + 16)
    table = load_word(load_word(pointers + 8))
    for i in range(count):
        _store(out, i, _load(table, np.int64(_load(x, i)) & 0xFFFF))
