"""The compiled loop that looks numbers of half types up in a table."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from .jit import machine
from .jit.compiler import Loop
from .jit.machine import load_word

# Elements a thread: as numba_pointwise.py has it for cheap loops.
_SHARE: Final = 65536
_load, _store = machine.LOAD["int16"], machine.STORE["int16"]


def loop() -> Loop:
    """Return the loop over numbers, the address of a table of 65,536, and results."""
    return Loop(_pick, [2, 0, 2], _SHARE, "a lookup in tables of half types")


def _pick(pointers: Any, count: Any) -> None:
    # The second operand is the table's address: one number for all, so without a size.
    x, out = load_word(pointers), load_word(pointers + 16)
    table = load_word(load_word(pointers + 8))
    for i in range(count):
        _store(out, i, _load(table, np.int64(_load(x, i)) & 0xFFFF))
