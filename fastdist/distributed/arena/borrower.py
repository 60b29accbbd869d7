"""The borrower's side of arenas: a block is taken once, and released with its last view."""

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
# The owner writes LENT, and the borrower writes TAKEN, so each word has one writer. To take a
# block, the borrower writes TAKEN and then reads LENT again. To take a block back, the owner clears
# LENT and then reads TAKEN. A memory fence makes each write visible before the read that follows
# it. So at least one of the two processes sees the other's write, and they never both have the
# block. In a conflict the borrower gives way, and releases the block. A block that the borrower has
# taken belongs to the borrower until the borrower releases it or its process ends.

# Returned in place of a buffer that the owner took back before this process read it.
REVOKED: Final = memoryview(b"")


class Held(weakref.ref[Bytes]):
    """A reference to a block in use; the block is released when its last view is freed."""

    __slots__ = ("arena", "end", "generation", "slot", "start")

    arena: BorrowedArena
    slot: int
    generation: int
    start: int
    end: int

    def release(self) -> None:
        """Return the block to its owner."""
        self.arena.release(self)


class BorrowedArena:
    """Another process's arena, mapped once.

    `owner` identifies the peer that offered the arena; only messages of that peer may name blocks
    of the arena. It is None if peers are not distinguished.

    Raises  ArenaError unless the arena is exactly as announced
    Thread  any
    """

    def __init__(
        self, pid: int, fd: int, size: int, arena_id: int, owner: object | None = None
    ) -> None:
        self.owner = owner
        self._mapping = open_arena(pid, fd, size, arena_id)
        self._words = words(self._mapping)
        self._size = size
        # Whether the owner was lost: a release then also frees the block's pages.
        self._is_orphan = False
        # Guards `take`. The garbage collector removes entries of _held without this lock, at any
        # time.
        self._lock = threading.RLock()
        self._held: dict[int, Held] = {}
        fork.borrowers.add(self)

    def take(self, descriptor: Buffer, size: int) -> Buffer:
        """Return the bytes of a block, which belong to this process until their last view is freed.

        A message that arrives twice gets the same bytes. Return REVOKED if the block is not lent.

        Raises  MessageError for an invalid descriptor
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
        """Free the unused pages if `is_gone` says that the owner's process has ended. From now on,
        each release of a block also frees the block's pages.

        Note    blocks of messages that are not read yet count as used
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
        """Return the blocks that are in use here."""
        blocks = [held() for held in list(self._held.values())]
        return [block for block in blocks if block is not None]

    def forget_all(self) -> None:
        """Release no block from now on, because all blocks belong to the parent process."""
        self._lock = threading.RLock()
        self._held.clear()

    def release(self, held: Held) -> None:
        """Return a block to its owner."""
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
        # The order matters: see Note [Who has a block].
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
        """Return the ranges of blocks that are in use, or may still be taken."""
        found = []
        rows_of_page = PAGE // (8 * ROW_WORDS)
        for first in range(0, NUM_SLOTS, rows_of_page):
            rows = np.ndarray(
                (rows_of_page, ROW_WORDS), np.uint64, self._mapping, first * 8 * ROW_WORDS
            )
            # Reading pages of a sparse file would allocate them, so stop at the first empty rows.
            if first and not rows[:, START].any():
                break
            taken, lent = rows[:, TAKEN], rows[:, LENT]
            is_held = (taken > 0) & (taken % 2 == 0)
            is_unread = taken < 2 * lent
            is_unread[0] &= first > 0
            found += [(int(row[START]), int(row[END])) for row in rows[is_held | is_unread]]
        return [
            (low, high)
            for low, high in found  # a dead owner may have left any values there
            if TABLE_BYTES <= low < high <= self._size and not (low % PAGE or high % PAGE)
        ]


def _release(held: Held) -> None:
    """Release a block whose last view was freed.

    Takes no lock, as the garbage collector may call it at any time.
    """
    arena = held.arena
    if arena._held.get(held.slot) is held:
        del arena._held[held.slot]
    if not fork.postpone(held):
        arena.release(held)


# Guards changes of _arenas; a look-up reads one entry without this lock.
_arenas_lock = threading.Lock()
_arenas: dict[int, BorrowedArena] = {}


def borrow(descriptor: Buffer, size: int, sender: object | None = None) -> Buffer:
    """Return the bytes of the block that a descriptor in a sender's message names, or REVOKED.

    Raises  MessageError for an invalid descriptor, or one that names memory of another worker
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
    """Map another process's arena, so that messages may name its blocks from now on.

    Raises  ArenaError unless it is the announced memory
    """
    arena = BorrowedArena(pid, fd, size, arena_id, owner)
    with _arenas_lock:
        _arenas[arena_id] = arena
    return arena


def close_borrowed(arena_id: int) -> None:
    """Refuse blocks of an arena from now on; taken blocks stay valid."""
    with _arenas_lock:
        _arenas.pop(arena_id, None)
