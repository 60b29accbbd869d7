"""The memory of the CPU that copies from and to devices go through: locked, bounded, used again."""

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
# A device copies from and to pages that the system may not move, without help from the CPU; locking
# pages takes milliseconds, and the rest of the machine cannot use locked memory. So there are
# blocks, of sizes that are powers of two, with a bound on their sum, and each is used again. A
# block is lent as an array of bytes; its loan ends when the last view of it has died: that of a
# message which has left, or whose peer was lost, as well as that of a pass which failed. It serves
# again once the device has passed the copies that it was lent for.
#
# If all blocks are lent, a caller waits for one to come back, which keeps senders from running
# ahead of the wire. It does not wait forever: a call that waits for its answer may keep its block,
# and the answer may need this one. So after PATIENCE_S, and for requests larger than all blocks
# together, unlocked memory is lent: copies are slower then, and work as well.
MOST_BYTES: Final = 256 << 20
PATIENCE_S: Final = 0.1
# The first waiter sorts out all returned blocks, without notifying the others.
_LOOK_EVERY_S: Final = 0.005
_LEAST_BYTES: Final = 4096


class Passed(Protocol):
    """The methods of an event that are used here."""

    def query(self) -> bool:
        """Say whether its stream has passed it."""

    def wait_quietly(self) -> bool:
        """Wait until its stream has passed it, whatever failed on the way."""


class _Returned(NamedTuple):
    """A block that nobody looks at any more, and what the device has still to pass."""

    memory: np.ndarray[Any, Any]
    events: Sequence[Passed]
    # Arrays of the device, which its copies read until then.
    kept: Sequence[Any]
    is_locked: bool


class Loan:
    """One use of a block, which ends when the last view of it has died."""

    __slots__ = ("__array_interface__", "_block", "_kept", "_returned", "events", "is_locked")

    def __init__(
        self, block: np.ndarray[Any, Any], returned: SimpleQueue[_Returned], *, is_locked: bool
    ) -> None:
        self._block, self._returned, self.is_locked = block, returned, is_locked
        self.events: list[Passed] = []
        self._kept: list[Any] = []
        self.__array_interface__ = block.__array_interface__

    def hold(self, event: Passed, arrays: Sequence[Any] = ()) -> None:
        """Let the block, and these arrays of the device, be there until an event has passed."""
        self.events.append(event)
        self._kept += arrays

    def has_arrived(self) -> None:
        """Forget what the device had to pass: somebody has waited for it."""
        self.events, self._kept = [], []

    def __del__(self) -> None:
        # Takes no lock: a finalizer may run anywhere.
        self._returned.put(_Returned(self._block, self.events, self._kept, self.is_locked))


class HostRing:
    """Blocks of one backend. See Note [Locked memory].

    Units   bytes
    Thread  any; `_lock` guards free, late and counted blocks. The device is queried while it is
            held, and nothing else
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
        # All locked: lent, late and free.
        self._bytes = 0

    def lend(self, size_bytes: int) -> tuple[Loan, np.ndarray[Any, Any]]:
        """Return a loan of so many bytes, and an array of them, which keeps it.

        Thread  may wait for a block to come back, `patience_s` at most
        """
        rounded = 1 << (max(size_bytes, _LEAST_BYTES) - 1).bit_length()
        block = self._take(rounded) if rounded <= self.most_bytes else None
        is_locked = block is not None
        if block is None:
            block = np.empty(size_bytes, np.uint8)
        loan = Loan(block, self._returned, is_locked=is_locked)
        return loan, np.asarray(loan)[:size_bytes]

    def usage(self) -> tuple[int, int]:
        """Return how many bytes are lent, or under way, and how many are locked in all."""
        with self._lock:
            self._collect()
            return self._bytes - self._free_bytes(), self._bytes

    def close(self) -> None:
        """Wait for copies of blocks that nobody has any more, as the backend ends."""
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
            # The system locks no more: what there is goes round.
            with self._lock:
                self._bytes -= rounded
            return None

    def _make_room(self, rounded: int) -> bool:
        """Give up free blocks of other sizes, if that makes room; return whether there is room."""
        if self._bytes - self._free_bytes() + rounded > self.most_bytes:
            return False
        while self._bytes + rounded > self.most_bytes:
            size = max(size for size, blocks in self._free.items() if blocks)
            self._free[size].pop()
            self._bytes -= size
        return True

    def _wait(self, late: _Returned | None, deadline: float) -> bool:
        """Wait for a block that may be free then; False once the time for it is over."""
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
        """Sort out what has come back."""
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
