"""A bounded pool of pinned CPU memory, which copies from and to devices use as staging memory."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Any, Final, NamedTuple, Protocol

import numpy as np

from fastdist.concurrency.thread_pool import hand_on_lead
from fastdist.core.errors import DeviceError

# Note [Locked memory]
# A device can copy asynchronously only from and to page-locked memory. Locking pages takes
# milliseconds, and other programs cannot use locked memory. So there are reusable blocks whose
# sizes are powers of two, and the sum of their sizes is bounded. A caller borrows a block as an
# array of bytes. This loan ends when the last view of the array is deleted, for example after a
# message was sent, after its peer was lost, or after a pass failed. The block is reused after the
# device has finished all copies from and to the block.
#
# If all blocks are in use, a caller waits until a block is returned. This wait keeps senders from
# running ahead of the network. A caller must not wait forever: a call that waits for its answer may
# hold a block, while the answer needs another block. So after PATIENCE_S, and for requests above
# the bound, the caller gets unlocked memory. Copies are then slower, but have the same results.
MOST_BYTES: Final = 256 << 20
PATIENCE_S: Final = 0.1
# How often waiting threads check for returned blocks. They must check, because one of them may
# collect all returned blocks without notifying the others.
_LOOK_EVERY_S: Final = 0.005
_LEAST_BYTES: Final = 4096


class Passed(Protocol):
    """The methods of an event that are used here."""

    def query(self) -> bool:
        """Return whether the stream has passed the event."""

    def wait_quietly(self) -> bool:
        """Wait until the stream has passed the event; return whether no error occurred."""


class _Returned(NamedTuple):
    """A block whose loan has ended, and the events that must be complete before its reuse."""

    memory: np.ndarray[Any, Any]
    events: Sequence[Passed]
    # Arrays of the device that copies to the block read; kept alive until the events are complete.
    kept: Sequence[Any]
    is_locked: bool


class Loan:
    """One use of a block. The use ends when the last view of the block is deleted."""

    __slots__ = ("__array_interface__", "_block", "_kept", "_returned", "events", "is_locked")

    def __init__(
        self, block: np.ndarray[Any, Any], returned: SimpleQueue[_Returned], *, is_locked: bool
    ) -> None:
        self._block, self._returned, self.is_locked = block, returned, is_locked
        self.events: list[Passed] = []
        self._kept: list[Any] = []
        self.__array_interface__ = block.__array_interface__

    def hold(self, event: Passed, arrays: Sequence[Any] = ()) -> None:
        """Keep the block, and these arrays of the device, until the stream has passed an event."""
        self.events.append(event)
        self._kept += arrays

    def has_arrived(self) -> None:
        """Remove all events and arrays, because the caller has waited for the events."""
        self.events, self._kept = [], []

    def __del__(self) -> None:
        # This method acquires no lock, because it is a finalizer, which may interrupt any line.
        self._returned.put(_Returned(self._block, self.events, self._kept, self.is_locked))


class HostRing:
    """The blocks of one backend. See Note [Locked memory].

    Units   bytes
    Thread  any; `_lock` guards the free blocks, the returned blocks with unfinished copies, and the
            byte count. The thread that holds `_lock` queries the device, but acquires no other lock
    """

    def __init__(
        self, lock_pages: Callable[[int], np.ndarray[Any, Any]], most_bytes: int = MOST_BYTES
    ) -> None:
        self._lock_pages = lock_pages
        self.most_bytes = most_bytes
        self.patience_s = PATIENCE_S
        self._lock = threading.Lock()
        self._returned: SimpleQueue[_Returned] = SimpleQueue()
        self._late: list[_Returned] = []
        self._free: dict[int, list[np.ndarray[Any, Any]]] = {}
        # The size of all locked blocks: in use, with unfinished copies, and free.
        self._bytes = 0

    def lend(self, size_bytes: int) -> tuple[Loan, np.ndarray[Any, Any]]:
        """Return a loan of this many bytes, and an array of these bytes. The array keeps the loan.

        Thread  may wait for a block to be returned, for at most `patience_s`
        """
        rounded = 1 << (max(size_bytes, _LEAST_BYTES) - 1).bit_length()
        block = self._take(rounded) if rounded <= self.most_bytes else None
        is_locked = block is not None
        if block is None:
            block = np.empty(size_bytes, np.uint8)
        loan = Loan(block, self._returned, is_locked=is_locked)
        return loan, np.asarray(loan)[:size_bytes]

    def usage(self) -> tuple[int, int]:
        """Return two byte counts: locked memory in use (lent or being copied), and all of it."""
        with self._lock:
            self._collect()
            return self._bytes - self._free_bytes(), self._bytes

    def close(self) -> None:
        """Wait for the copies of returned blocks; called when the backend shuts down."""
        with self._lock:
            self._collect()
            late, self._late = self._late, []
        for returned in late:
            for event in returned.events:
                event.wait_quietly()

    def _take(self, rounded: int) -> np.ndarray[Any, Any] | None:
        deadline = time.monotonic() + self.patience_s
        while True:
            with self._lock:
                self._collect()
                free = self._free.get(rounded)
                block = free.pop() if free else None
                if block is not None or self._make_room(rounded):
                    if block is None:
                        self._bytes += rounded
                    break
                late = self._late[0] if self._late else None
            if not self._wait(late, deadline):
                return None
        if block is not None:
            return block
        try:
            return self._lock_pages(rounded)
        except (DeviceError, MemoryError):
            # The system cannot lock more pages, so the existing blocks must suffice.
            with self._lock:
                self._bytes -= rounded
            return None

    def _make_room(self, rounded: int) -> bool:
        """Drop free blocks of other sizes until `rounded` bytes fit; return whether they fit."""
        if self._bytes - self._free_bytes() + rounded > self.most_bytes:
            return False
        while self._bytes + rounded > self.most_bytes:
            size = max(size for size, blocks in self._free.items() if blocks)
            self._free[size].pop()
            self._bytes -= size
        return True

    def _wait(self, late: _Returned | None, deadline: float) -> bool:
        """Wait until a block may have become free; return False after the deadline."""
        if time.monotonic() >= deadline:
            return False
        if late is not None:
            for event in late.events:
                event.wait_quietly()
            return True
        hand_on_lead()
        try:
            returned = self._returned.get(timeout=_LOOK_EVERY_S)
        except Empty:
            return True
        with self._lock:
            self._late.append(returned)
        return True

    def _collect(self) -> None:
        """Process returned blocks: free those whose events are complete, and keep the others."""
        came, self._late = self._late, []
        while True:
            try:
                came.append(self._returned.get_nowait())
            except Empty:
                break
        for returned in came:
            if not all(event.query() for event in returned.events):
                self._late.append(returned)
            elif returned.is_locked:
                self._free.setdefault(returned.memory.nbytes, []).append(returned.memory)

    def _free_bytes(self) -> int:
        return sum(size * len(blocks) for size, blocks in self._free.items())
