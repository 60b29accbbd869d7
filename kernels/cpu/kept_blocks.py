"""A cache of freed blocks, whose compiled functions NumPy calls for the memory of large arrays."""

# kept_block_code.py has the functions, and explains the words of the state.

from __future__ import annotations

import ctypes
from typing import Any, Final

import numpy as np
from numpy._core import multiarray

from .jit.kernel_cache import find_address

_multiarray: Any = multiarray

_SLOTS: Final = 32
# Indices of the state's words.
KEPT: Final = 0
MOST: Final = 1
CLOCK: Final = 2
HUGE: Final = 3
LEAST: Final = 4
LINE: Final = 5
BLOCKS: Final = 6
END: Final = BLOCKS + 3 * _SLOTS


class Keeper:
    """Keeps freed blocks: each has at least `least_bytes`, and all together at most `most_bytes`.
    Smaller arrays are aligned to `line_bytes`, and are not kept. A Keeper is never deleted.

    Units   `state` is the address of the words; `take` and `give` are the addresses of the C
            functions void *take(state, size) and void give(state, block, size)
    """

    def __init__(self, most_bytes: int, least_bytes: int, line_bytes: int) -> None:
        self._words = np.zeros(END, np.int64)
        self._words[MOST] = most_bytes
        self._words[HUGE] = _multiarray._get_madvise_hugepage()
        # These are not constants of the compiled code, because a cached kernel would keep old
        # values.
        self._words[LEAST], self._words[LINE] = least_bytes, line_bytes
        self.state: int = self._words.ctypes.data
        self.take, self.give = [find_address("kept_block_code", name) for name in ("take", "give")]
        self._give = ctypes.PYFUNCTYPE(None, *[ctypes.c_int64] * 3)(self.give)

    def drop(self) -> None:
        """Return all kept memory to the system."""
        self._give(self.state, 0, 0)

    def kept_bytes(self) -> int:
        """Return the number of bytes that are kept."""
        return int(self._words[KEPT])
