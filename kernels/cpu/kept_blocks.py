"""A keeper of freed blocks: what NumPy calls for the memory of large arrays, compiled."""

# Its state is an array of words: how many bytes are kept, how many may be, a clock, whether new
# blocks are to be of huge pages, from how many bytes on an array is a block, at what multiples of
# bytes a smaller one begins; then for each kept block its address, its size (0: none) and when it
# came. What came last serves first, as it may still be in a cache; what came first goes when room
# is wanted. NumPy holds the interpreter's lock whenever it allocates or frees.
#
# The system is told that it may have the pages of a kept block that is a large one (MADV_FREE): it
# takes them when memory runs short, and they are zero then. That costs 9 us for 40 MB in huge
# pages, and 100 us more for the first write afterwards, of 1080; to get them anew takes 2950 (AMD
# EPYC, Zen 4, Linux 6.18). In pages of 4 KiB it costs 2000 to 3500, and the write 2700 more. So a
# new block that large is to have huge ones even if glibc has it from a heap, where others, freed
# meanwhile, have left small ones: it gives them back first, and pays for its first pages what a
# block pays that glibc asks the system for. A sum of 1e7 float32 with its gradient takes 3.5 ms in
# place of 8.5 then.

from __future__ import annotations

import ctypes
from typing import Any, Final

import numba
import numpy as np
from numpy._core import multiarray

from .jit import machine
from .jit.compiler import compiled, compiled_callback

_multiarray: Any = multiarray
_load: Any = machine.LOAD["int64"]
_store: Any = machine.STORE["int64"]

_SLOTS: Final = 32
# Where in the state lies what.
_KEPT: Final = 0
_MOST: Final = 1
_CLOCK: Final = 2
_HUGE: Final = 3
_LEAST: Final = 4
_LINE: Final = 5
_BLOCKS: Final = 6
_END: Final = _BLOCKS + 3 * _SLOTS

_HUGE_PAGE: Final = 2 << 20
_MADV_DONTNEED: Final = 4
_MADV_FREE: Final = 8
_MADV_HUGEPAGE: Final = 14
# Of less it would cost a twentieth of the work on it; glibc keeps as much without asking.
_LENT_FROM: Final = 32 << 20
# A kept block serves for what is up to an eighth smaller.
_SPARE: Final = 3

_WORD: Final = numba.int64
_c: Any = numba.types.ExternalFunction
_aligned_alloc: Any = _c("aligned_alloc", _WORD(_WORD, _WORD))
_free: Any = _c("free", numba.void(_WORD))
_usable_size: Any = _c("malloc_usable_size", _WORD(_WORD))
_madvise: Any = _c("madvise", numba.int32(_WORD, _WORD, numba.int32))


class Keeper:
    """What keeps blocks of at least so many bytes, at most so many; it is never deleted. What is
    smaller begins at a multiple of line_bytes, and is not kept.

    Units   `state`, `take` and `give` are addresses: of the words, and of C functions,
            void *take(state, size) and void give(state, block, size)
    """

    def __init__(self, most_bytes: int, least_bytes: int, line_bytes: int) -> None:
        self._words = np.zeros(_END, np.int64)
        self._words[_MOST] = most_bytes
        self._words[_HUGE] = _multiarray._get_madvise_hugepage()
        # Not constants of the compiled code: a cache would keep it though they had changed.
        self._words[_LEAST], self._words[_LINE] = least_bytes, line_bytes
        self._callbacks = callbacks = [
            compiled_callback(function, signature, "the keeper of freed memory")
            for function, signature in (
                (_take, _WORD(_WORD, _WORD)),
                (_give, numba.void(_WORD, _WORD, _WORD)),
            )
        ]
        self.state: int = self._words.ctypes.data
        self.take: int = callbacks[0].address
        self.give: int = callbacks[1].address
        self._give = ctypes.PYFUNCTYPE(None, *[ctypes.c_int64] * 3)(self.give)

    def drop(self) -> None:
        """Give the system back all that is kept."""
        self._give(self.state, 0, 0)

    def kept_bytes(self) -> int:
        """Return how much that is."""
        return int(self._words[_KEPT])


def _take(state: int, size: int) -> int:
    if size < _load(state, _LEAST):
        return _aligned_alloc(_load(state, _LINE), size)  # type: ignore[no-any-return]
    newest, found = -1, -1
    for at in range(_BLOCKS, _END, 3):
        has = _load(state, at + 1)
        if size <= has <= size + (size >> _SPARE) and _load(state, at + 2) > newest:
            newest, found = _load(state, at + 2), at
    if found >= 0:
        _store(state, _KEPT, _load(state, _KEPT) - _load(state, found + 1))
        _store(state, found + 1, 0)
        return _load(state, found)  # type: ignore[no-any-return]
    block = _aligned_alloc(_HUGE_PAGE, size)
    if block != 0 and _load(state, _HUGE) != 0:
        if size >= _LENT_FROM:
            # No more than its own: a page in part its neighbour's stays as it is.
            _madvise(block, size // _HUGE_PAGE * _HUGE_PAGE, _MADV_DONTNEED)
        _madvise(block, size, _MADV_HUGEPAGE)
    return block  # type: ignore[no-any-return]


def _give(state: int, block: int, _: int) -> None:
    # Not what NumPy says: its array may be a part of what it asked for, or resized.
    size = _usable_size(block)
    if block != 0 and (size < _load(state, _LEAST) or size > _load(state, _MOST)):
        _free(block)
        return
    # No block, of which NumPy has none to give, has all go.
    at = _drop_to(state, _load(state, _MOST) - size if block != 0 else 0)
    if block == 0:
        return
    clock = _load(state, _CLOCK) + 1
    _store(state, _CLOCK, clock)
    _store(state, _KEPT, _load(state, _KEPT) + size)
    _store(state, at, block)
    _store(state, at + 1, size)
    _store(state, at + 2, clock)
    if size >= _LENT_FROM:
        first = (block + _HUGE_PAGE - 1) // _HUGE_PAGE * _HUGE_PAGE
        _madvise(first, (block + size - first) // _HUGE_PAGE * _HUGE_PAGE, _MADV_FREE)


@compiled(alone=False)
def _drop_to(state: int, most: int) -> int:
    """Free what was kept longest until no more than `most` bytes are; return a slot without one."""
    while True:
        oldest, found, without = _load(state, _CLOCK) + 1, -1, -1
        for at in range(_BLOCKS, _END, 3):
            if _load(state, at + 1) == 0:
                without = at
            elif _load(state, at + 2) < oldest:
                oldest, found = _load(state, at + 2), at
        if without >= 0 and _load(state, _KEPT) <= most:
            return without
        _free(_load(state, found))
        _store(state, _KEPT, _load(state, _KEPT) - _load(state, found + 1))
        _store(state, found + 1, 0)
