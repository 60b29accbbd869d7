"""Blocks of other processes' arenas as their borrower sees them: taken once, released by dying."""

from __future__ import annotations

import threading
import weakref
from typing import Final

import numpy as np

from fastdist.core.errors import MessageError
from fastdist.system.fence import full_fence

from ..pipe.frames import Buffer
from . import fork
from .layout import (
    ARENA_BLOCK,
    END,
    LENT,
    NUM_SLOTS,
    PAGE,
    ROW_WORDS,
    START,
    TABLE_BYTES,
    TAKEN,
    Bytes,
    bytes_at,
    give_pages_back,
    open_arena,
    round_up,
    words,
)

# Note [Who has a block]
# The owner writes LENT, the borrower TAKEN, so no word has two writers. To take a block the
# borrower writes TAKEN and then looks at LENT again; to take it back the owner clears LENT and then
# looks at TAKEN; each has its own write seen before it reads. So at least one of them sees the
# other: never do both have it. The borrower then gives way, and says so by releasing it. A block
# that the borrower has taken stays its own until it releases it, or its process ends.

# In the place of a buffer that its owner took back before it was read here.
REVOKED: Final = memoryview(b"")


class Held(weakref.ref[Bytes]):
    """A block that something here looks at; released when the last view of it has died."""

    __slots__ = ("arena", "end", "generation", "slot", "start")

    arena: BorrowedArena
    slot: int
    generation: int
    start: int
    end: int

    def release(self) -> None:
        """Let the owner have the block again."""
        self.arena.release(self)


class BorrowedArena:
    """Another process's arena, mapped once.

    `owner` stands for the peer that offered it, whose messages alone may name its blocks; None
    where nobody tells peers apart.

    Raises  ArenaError unless it is exactly what was announced
    Thread  any
    """

    def __init__(
        self, pid: int, fd: int, size: int, arena_id: int, owner: object | None = None
    ) -> None:
        self.owner = owner
        self._mapping = open_arena(pid, fd, size, arena_id)
        self._words = words(self._mapping)
        self._size = size
        # A borrower that releases a block also frees its pages: the owner will not.
        self._is_orphan = False
        # Guards taking. Entries of _held go away without it: they do so wherever garbage is found.
        self._lock = threading.RLock()
        self._held: dict[int, Held] = {}
        fork.borrowers.add(self)

    def take(self, descriptor: Buffer, size: int) -> Buffer:
        """Return the bytes of a block, ours alone until the last view of them dies.

        A message that comes twice gets the same bytes; REVOKED if they are no longer lent.

        Raises  MessageError for a descriptor that cannot be
        """
        _, slot, generation, start = ARENA_BLOCK.unpack(descriptor)
        if (
            not 0 < slot < NUM_SLOTS
            or not 0 < generation < 1 << 62
            or start % PAGE
            or start < TABLE_BYTES
            or size <= 0
            or start + size > self._size
        ):
            raise MessageError(
                f"a block of {size} bytes at {start} with slot {slot}; the arena has "
                f"{self._size} bytes"
            )
        with self._lock:
            block = self._take(slot, generation, start, size)
        return REVOKED if block is None else block.data

    def owner_was_lost(self, *, is_gone: bool) -> None:
        """Give back what nobody holds if the owner's process has ended, and the rest in time.

        Note    what lies unread in some queue counts as held
        """
        self._is_orphan = True
        if not is_gone:
            return
        start = TABLE_BYTES
        for low, high in sorted(self._lent()):
            if low > start:
                give_pages_back(self._mapping, start, low)
            start = max(start, high)
        if start < self._size:
            give_pages_back(self._mapping, start, self._size)

    def held_blocks(self) -> list[Bytes]:
        """Return the blocks that somebody here looks at."""
        blocks = [held() for held in list(self._held.values())]
        return [block for block in blocks if block is not None]

    def forget_all(self) -> None:
        """Release nothing any more: the blocks are another process's."""
        self._lock = threading.RLock()
        self._held.clear()

    def release(self, held: Held) -> None:
        """Let the owner have a block again."""
        if self._is_orphan:
            give_pages_back(self._mapping, held.start, held.end)
        self._words[held.slot * ROW_WORDS + TAKEN] = 2 * held.generation + 1

    def _take(self, slot: int, generation: int, start: int, size: int) -> Bytes | None:
        held = self._held.get(slot)
        if held is not None and held.generation == generation:
            block = held()
            if block is not None:
                if held.start != start or block.nbytes != size:
                    raise MessageError(
                        f"a block of {size} bytes at {start} with slot {slot}, which came as one "
                        f"of {block.nbytes} bytes at {held.start}"
                    )
                return block
        row, table = slot * ROW_WORDS, self._words
        if table[row + LENT] != generation or table[row + TAKEN] >= 2 * generation:
            return None
        # See Note [Who has a block].
        table[row + TAKEN] = 2 * generation
        full_fence()
        if table[row + LENT] != generation:
            table[row + TAKEN] = 2 * generation + 1
            return None
        block = bytes_at(self._mapping, start, size)
        held = Held(block, _release)
        held.arena, held.slot, held.generation = self, slot, generation
        held.start, held.end = start, start + round_up(size)
        self._held[slot] = held
        return block

    def _lent(self) -> list[tuple[int, int]]:
        """Return where blocks lie that somebody holds, or may still take."""
        found = []
        rows_of_page = PAGE // (8 * ROW_WORDS)
        for first in range(0, NUM_SLOTS, rows_of_page):
            rows = np.ndarray(
                (rows_of_page, ROW_WORDS), np.uint64, self._mapping, first * 8 * ROW_WORDS
            )
            # To look at pages that are not there would make them, so not further than needed.
            if first and not rows[:, START].any():
                break
            taken, lent = rows[:, TAKEN], rows[:, LENT]
            is_held = (taken > 0) & (taken % 2 == 0)
            is_unread = taken < 2 * lent
            is_unread[0] &= first > 0
            found += [(int(row[START]), int(row[END])) for row in rows[is_held | is_unread]]
        return [
            (low, high)
            for low, high in found  # what a dead owner left there may be anything
            if TABLE_BYTES <= low < high <= self._size and not (low % PAGE or high % PAGE)
        ]


def _release(held: Held) -> None:
    """Release a block whose last view has died; without a lock, as it runs wherever garbage is
    found.
    """
    arena = held.arena
    if arena._held.get(held.slot) is held:
        del arena._held[held.slot]
    if not fork.postpone(held):
        arena.release(held)


# Guards changes of _arenas; a look-up reads one entry.
_arenas_lock = threading.Lock()
_arenas: dict[int, BorrowedArena] = {}


def borrow(descriptor: Buffer, size: int, sender: object | None = None) -> Buffer:
    """Return the bytes that a descriptor in a sender's message names; REVOKED if they cannot be had
    any more.

    Raises  MessageError for a descriptor that cannot be, or names memory of another worker
    """
    arena_id = ARENA_BLOCK.unpack(descriptor)[0]
    arena = _arenas.get(arena_id)
    if arena is None:
        return REVOKED
    if arena.owner is not None and arena.owner is not sender:
        raise MessageError(f"a block of arena {arena_id:#x}, which is not the sender's")
    return arena.take(descriptor, size)


def open_borrowed(
    pid: int, fd: int, size: int, arena_id: int, owner: object | None = None
) -> BorrowedArena:
    """Let messages name blocks of another process's arena from now on.

    Raises  ArenaError where that is not the same memory
    """
    arena = BorrowedArena(pid, fd, size, arena_id, owner)
    with _arenas_lock:
        _arenas[arena_id] = arena
    return arena


def close_borrowed(arena_id: int) -> None:
    """Let no message name blocks of an arena any more; what was taken stays."""
    with _arenas_lock:
        _arenas.pop(arena_id, None)
