"""This process's arena: lent blocks, their borrowers, and free ranges."""

from __future__ import annotations

import mmap
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from fastdist.system.fence import full_fence

from ..pipe.frames import Buffer
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
    Words,
    bytes_at,
    create,
    give_pages_back,
    round_up,
    words,
)
from .ranges import Ranges

# Pages that were not used for one to two of these periods are returned to the system. Filling fresh
# pages takes a millisecond per MiB, ten times as long as filling pages that were used before. So
# pages should stay allocated from one training step to the next.
TRIM_S: Final = 10.0
# If a connection broke this long ago, and a block that was lent over it is still untaken, the
# block's message was lost.
LOST_AFTER_S: Final = 60.0


class Block:
    """A range that is lent to one peer for one message."""

    __slots__ = (
        "end",
        "generation",
        "has_pages",
        "is_filled",
        "lender",
        "message_id",
        "since",
        "start",
    )

    def __init__(self, start: int, end: int, lender: object, message_id: int) -> None:
        self.start = start
        self.end = end
        self.lender = lender
        self.message_id = message_id
        self.generation = 0
        # Whether all pages of the block were allocated before it was reserved.
        self.has_pages = False
        # While it is False, a thread copies into the block, so no other thread may free its range.
        self.is_filled = False
        self.since = time.monotonic()


class Arena:
    """Shared memory of one process, which lends blocks to other processes of its machine.

    `call_later(seconds, function)` schedules the freeing of unused pages.

    Raises  ArenaError if the system refuses the memory
    Thread  any
    """

    def __init__(self, size: int, call_later: Callable[[float, Callable[[], None]], None]) -> None:
        self.size = size
        self.fd, mapping, self.id = create(size)
        self._call_later = call_later
        # Guards all attributes below. Not held while data is copied, or pages are allocated or
        # freed.
        self._lock = threading.RLock()
        # None once the arena is closed; a thread that is copying keeps a separate reference.
        self._mapping: mmap.mmap | None = mapping
        self._words: Words = words(mapping)
        self._free = Ranges(TABLE_BYTES, size)
        self._blocks: dict[int, Block] = {}
        self._slots_of_message: dict[int, list[int]] = {}
        self._free_slots: deque[int] = deque()
        self._num_slots = 1  # row 0 is the header
        self._generation = 0
        table = np.ndarray((NUM_SLOTS, ROW_WORDS), np.uint64, mapping)
        self._taken: np.ndarray[Any, Any] = table[:, TAKEN]
        # By slot: whether its block is lent, and the value that TAKEN has after the release of the
        # block. These are not in the shared table: borrowers may write any value into any row.
        self._is_lent = np.zeros(NUM_SLOTS, np.bool_)
        self._expected = np.zeros(NUM_SLOTS, np.uint64)
        # For each page: 0 if it is not allocated, else the period (1 or 2) in which it was last
        # lent.
        self._pages = np.zeros(size // PAGE, np.uint8)
        self._period = 1
        self._top = TABLE_BYTES  # no page from here on is allocated
        self._trim_is_due = False

    def lend(self, data: Buffer, lender: object, message_id: int) -> bytes | None:
        """Copy data into a block for one peer; return its descriptor, or None if there is no room.

        Thread  any; does not wait
        """
        size = len(data)
        length = round_up(size)
        block = Block(0, length, lender, message_id)
        with self._lock:
            mapping = self._mapping
            slot = None if mapping is None else self._reserve(block)
            must_trim, self._trim_is_due = not self._trim_is_due, True
        if must_trim:
            self._call_later(TRIM_S, self.trim)
        if mapping is None or slot is None:
            return None
        start = block.start
        try:
            if not block.has_pages:
                # Allocate first: if no memory is left, a page fault in the copy would end the
                # process.
                os.posix_fallocate(self.fd, start, length)
            np.copyto(bytes_at(mapping, start, size), np.frombuffer(data, np.uint8))
        except BaseException as error:
            with self._lock:
                if not block.has_pages:
                    self._pages[start // PAGE : block.end // PAGE] = 0
                self._forget(slot)
                self._let_go()
            if isinstance(error, OSError):
                return None  # no memory is left
            raise
        return self._hand_out(slot, block)

    def end(self, message_id: int) -> None:
        """Take back the blocks of a message that the receiver has not taken."""
        with self._lock:
            for slot in list(self._slots_of_message.get(message_id, ())):
                self._revoke(slot)

    def renew_if_untaken(self, message_id: int) -> bool:
        """Return whether a message has blocks, and the receiver has taken none of them.

        The caller then sends the message again. So the blocks count as lent now: they must not be
        taken back because an earlier connection broke.
        """
        with self._lock:
            slots = self._slots_of_message.get(message_id, ())
            if self._mapping is None or not slots:
                return False
            for slot in slots:
                block = self._blocks[slot]
                if self._words[slot * ROW_WORDS + TAKEN] >= 2 * block.generation:
                    return False
                block.since = time.monotonic()
            return True

    def lends(self, slot: int, generation: int) -> bool:
        """Return whether a block is lent, or was lent when the arena was closed."""
        with self._lock:
            if self._mapping is not None:
                self._collect()
            block = self._blocks.get(slot)
            return block is not None and block.generation == generation

    def row(self, slot: int) -> Words:
        """Return a slot's row of the table; it stays readable when the arena is closed later."""
        with self._lock:
            return self._words[slot * ROW_WORDS : (slot + 1) * ROW_WORDS]

    def end_all(self, lender: object, *, is_gone: bool) -> bool:
        """Take back a peer's untaken blocks, and all its blocks if its process has ended.

        Return whether the peer still holds any block.
        """
        with self._lock:
            slots = [slot for slot, block in self._blocks.items() if block.lender is lender]
            for slot in slots:
                if is_gone and self._blocks[slot].is_filled:
                    self._forget(slot)
                else:
                    self._revoke(slot)
            self._collect()
            return any(slot in self._blocks for slot in slots)

    def connection_broke(self, lender: object) -> None:
        """Schedule the return of blocks that were lent to a peer before now and stay untaken."""
        now = time.monotonic()
        self._call_later(LOST_AFTER_S, lambda: self._end_lost(lender, now))

    def trim(self) -> None:
        """Free pages that were not lent recently; schedule the next call while pages remain."""
        with self._lock:
            mapping = self._mapping
            if mapping is None:
                return
            self._collect()
            self._period = 3 - self._period
            unused = [run for low, high in self._free.all() for run in self._unused_runs(low, high)]
        try:
            for start, end in unused:
                self._give_back(mapping, start, end)
        finally:
            # Schedule this also after an error; otherwise no page would be freed any more.
            if self._must_trim_again():
                self._call_later(TRIM_S, self.trim)

    def _must_trim_again(self) -> bool:
        with self._lock:
            there = np.flatnonzero(self._pages[: self._top // PAGE])
            last = (int(there[-1]) + 1) * PAGE if there.size else TABLE_BYTES
            self._top = max([last, *[block.end for block in self._blocks.values()]])
            self._trim_is_due = bool(there.size or self._blocks)
            return self._trim_is_due and self._mapping is not None

    def usage(self) -> tuple[int, int, int]:
        """Return the number of lent blocks, their bytes, and the bytes of all allocated pages."""
        with self._lock:
            if self._mapping is not None:
                self._collect()
            lent = sum(block.end - block.start for block in self._blocks.values())
            return (
                len(self._blocks),
                lent,
                int(np.count_nonzero(self._pages[: self._top // PAGE])) * PAGE,
            )

    def close(self) -> None:
        """Free all pages that no borrower uses; a used page exists until its borrowers unmap it."""
        with self._lock:
            mapping = self._mapping
            if mapping is None:
                return
            # An untaken block may belong to the last answer, which is in transit, so it stays lent.
            self._collect()
            unused = self._free.all()
            self._mapping = None
            self._let_go()
        for start, end in unused:
            give_pages_back(mapping, start, end)

    def _reserve(self, block: Block) -> int | None:
        """Reserve a range and a slot for a block. The caller holds the lock."""
        self._collect()
        if not self._free_slots and self._num_slots == NUM_SLOTS:
            return None
        start = self._free.take(block.end)
        if start is None:
            return None
        if self._free_slots:
            slot = self._free_slots.pop()
        else:
            slot = self._num_slots
            self._num_slots += 1
        self._generation += 1
        block.generation = self._generation
        block.start, block.end = start, start + block.end
        self._top = max(self._top, block.end)
        pages = self._pages[start // PAGE : block.end // PAGE]
        block.has_pages = bool(pages.all())
        pages.fill(self._period)
        self._blocks[slot] = block
        self._slots_of_message.setdefault(block.message_id, []).append(slot)
        self._expected[slot] = 2 * block.generation + 1
        self._is_lent[slot] = True
        return slot

    def _hand_out(self, slot: int, block: Block) -> bytes | None:
        """Write the row of a filled block; return its descriptor, or None if its peer was lost."""
        with self._lock:
            if block.lender is None or self._mapping is None:
                self._forget(slot)
                self._let_go()
                return None
            block.is_filled = True
            row, table = slot * ROW_WORDS, self._words
            table[row + START], table[row + END] = block.start, block.end
            table[row + LENT] = block.generation
            return ARENA_BLOCK.pack(self.id, slot, block.generation, block.start)

    def _end_lost(self, lender: object, before: float) -> None:
        with self._lock:
            for slot, block in list(self._blocks.items()):
                if block.lender is lender and block.since < before:
                    self._revoke(slot)

    def _let_go(self) -> None:
        """If the arena is closed and no block is being filled, close the file descriptor. The
        caller holds the lock.
        """
        is_closed = self._mapping is None and self.fd >= 0
        if is_closed and all(block.is_filled for block in self._blocks.values()):
            os.close(self.fd)
            self.fd = -1
            # The memory is unmapped when the last view of it is freed.
            self._taken, self._words = np.empty(0, np.uint64), memoryview(b"")

    def _collect(self) -> None:
        """Free the blocks that borrowers have released. The caller holds the lock."""
        num = self._num_slots
        if self._blocks and self._mapping is not None:
            is_released = self._taken[:num] == self._expected[:num]
            is_released &= self._is_lent[:num]
            for slot in is_released.nonzero()[0].tolist():
                self._forget(slot)

    def _forget(self, slot: int, *, use_again_last: bool = False) -> None:
        block = self._blocks.pop(slot)
        self._is_lent[slot] = False
        self._free.give_back(block.start, block.end)
        slots = self._slots_of_message[block.message_id]
        slots.remove(slot)
        if not slots:
            del self._slots_of_message[block.message_id]
        if use_again_last:
            self._free_slots.appendleft(slot)
        else:
            self._free_slots.append(slot)

    def _revoke(self, slot: int) -> None:
        """Take a block back unless its borrower has taken it. The caller holds the lock.

        See Note [Who has a block] in borrower.py. A borrower that takes the block at the same
        moment sees that the owner has taken it back, and releases it. The borrower's late write to
        the row must not affect the next block of the slot, so the slot is reused last.
        """
        block = self._blocks[slot]
        if not block.is_filled:
            block.lender = None  # checked by _hand_out
            return
        if self._mapping is None:
            return
        row, generation = slot * ROW_WORDS, block.generation
        self._words[row + LENT] = 0
        full_fence()
        if self._words[row + TAKEN] < 2 * generation:
            self._forget(slot, use_again_last=True)

    def _unused_runs(self, low: int, high: int) -> list[tuple[int, int]]:
        """Return the runs of pages in a free range that were not lent in the last period."""
        pages = self._pages[low // PAGE : min(high, self._top) // PAGE]
        unused = (pages == self._period).astype(np.int8)
        edges = np.flatnonzero(np.diff(unused, prepend=0, append=0)) * PAGE + low
        return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))

    def _give_back(self, mapping: mmap.mmap, start: int, end: int) -> None:
        with self._lock:
            if not self._free.take_exactly(start, end):
                return  # lent again in between
        has_gone = False
        try:
            # The range is taken, so no other thread can use it and no lock is needed.
            give_pages_back(mapping, start, end)
            has_gone = True
        finally:
            with self._lock:
                if has_gone:
                    self._pages[start // PAGE : end // PAGE] = 0
                self._free.give_back(start, end)
