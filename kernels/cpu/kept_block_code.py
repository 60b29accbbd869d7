"""The two compiled functions by which NumPy allocates and frees blocks of memory."""

# The state is an array of words. The first words are: the number of kept bytes, the limit of this
# number, a clock, whether new blocks get huge pages, the least size of a block in bytes, and the
# alignment of smaller arrays in bytes. Three more words for each kept block are its address, its
# size (0 if the slot is empty) and the clock when it was freed. The block that was freed last is
# reused first, because it may still be in a cache. The oldest block is given back to the C library
# when space is needed. NumPy holds the GIL whenever it allocates or frees.
#
# The pages of a large kept block are offered to the system (MADV_FREE), which takes them when
# memory is short. A page that the system has taken is zero afterwards. For a block of 40 MB in huge
# pages, the offer costs 9 us, and makes the next write, which takes 1080 us, 100 us slower;
# allocating new memory takes 2950 (AMD EPYC, Zen 4, Linux 6.18). In pages of 4 KiB the offer costs
# 2000 to 3500 us, and makes the next write 2700 us slower. So a new large block gets huge pages,
# even if glibc takes the block from a heap in which earlier blocks have left small pages. The small
# pages are released first (MADV_DONTNEED), so the block's pages cost as much as new pages from the
# system. With huge pages a sum of 1e7 float32 with its gradient takes 3.5 ms instead of 8.5.

from __future__ import annotations

from typing import Any, Final

import numba

from .jit import machine
from .jit.compiler import Callback, compiled
from .kept_blocks import BLOCKS, CLOCK, END, HUGE, KEPT, LEAST, LINE, MOST

_load: Any = machine.LOAD["int64"]
_store: Any = machine.STORE["int64"]

_HUGE_PAGE: Final = 2 << 20
_MADV_DONTNEED: Final = 4
_MADV_FREE: Final = 8
_MADV_HUGEPAGE: Final = 14
# The pages of smaller blocks are not offered to the system: the offer would take a twentieth of the
# time of the work on such a block, and glibc keeps as much memory anyway.
_LENT_FROM: Final = 32 << 20
# A kept block is used for requests that are up to an eighth smaller.
_SPARE: Final = 3

_WORD: Final = numba.int64
_c: Any = numba.types.ExternalFunction
_aligned_alloc: Any = _c("aligned_alloc", _WORD(_WORD, _WORD))
_free: Any = _c("free", numba.void(_WORD))
_usable_size: Any = _c("malloc_usable_size", _WORD(_WORD))
_madvise: Any = _c("madvise", numba.int32(_WORD, _WORD, numba.int32))
_WHAT: Final = "the keeper of freed memory"


def take() -> Callback:
    """Return the C function void *take(state, size), which allocates."""
    return Callback(_take, _WORD(_WORD, _WORD), _WHAT)


def give() -> Callback:
    """Return the C function void give(state, block, size), which frees."""
    return Callback(_give, numba.void(_WORD, _WORD, _WORD), _WHAT)


def _take(state: int, size: int) -> int:
    if size < _load(state, LEAST):
        return _aligned_alloc(_load(state, LINE), size)  # type: ignore[no-any-return]
    newest, found = -1, -1
    for at in range(BLOCKS, END, 3):
        has = _load(state, at + 1)
        if size <= has <= size + (size >> _SPARE) and _load(state, at + 2) > newest:
            newest, found = _load(state, at + 2), at
    if found >= 0:
        _store(state, KEPT, _load(state, KEPT) - _load(state, found + 1))
        _store(state, found + 1, 0)
        return _load(state, found)  # type: ignore[no-any-return]
    block = _aligned_alloc(_HUGE_PAGE, size)
    if block != 0 and _load(state, HUGE) != 0:
        if size >= _LENT_FROM:
            # Release only whole pages of the block: a page that the block shares with another one
            # stays as it is.
            _madvise(block, size // _HUGE_PAGE * _HUGE_PAGE, _MADV_DONTNEED)
        _madvise(block, size, _MADV_HUGEPAGE)
    return block  # type: ignore[no-any-return]


def _give(state: int, block: int, _: int) -> None:
    # The size that NumPy passes is not used: the array may be a part of the allocation, or may have
    # been resized.
    size = _usable_size(block)
    if block != 0 and (size < _load(state, LEAST) or size > _load(state, MOST)):
        _free(block)
        return
    # A null block means: free all kept blocks. NumPy itself never passes one.
    at = _drop_to(state, _load(state, MOST) - size if block != 0 else 0)
    if block == 0:
        return
    clock = _load(state, CLOCK) + 1
    _store(state, CLOCK, clock)
    _store(state, KEPT, _load(state, KEPT) + size)
    _store(state, at, block)
    _store(state, at + 1, size)
    _store(state, at + 2, clock)
    if size >= _LENT_FROM:
        first = (block + _HUGE_PAGE - 1) // _HUGE_PAGE * _HUGE_PAGE
        _madvise(first, (block + size - first) // _HUGE_PAGE * _HUGE_PAGE, _MADV_FREE)


@compiled(alone=False)
def _drop_to(state: int, most: int) -> int:
    """Free the oldest blocks until at most `most` bytes are kept; return an empty slot."""
    while True:
        oldest, found, without = _load(state, CLOCK) + 1, -1, -1
        for at in range(BLOCKS, END, 3):
            if _load(state, at + 1) == 0:
                without = at
            elif _load(state, at + 2) < oldest:
                oldest, found = _load(state, at + 2), at
        if without >= 0 and _load(state, KEPT) <= most:
            return without
        _free(_load(state, found))
        _store(state, KEPT, _load(state, KEPT) - _load(state, found + 1))
        _store(state, found + 1, 0)
