"""Limits how much of this worker's memory the unanswered calls to one peer may hold."""

from __future__ import annotations

import threading
import time

from fastdist.concurrency.thread_pool import hand_on_lead, lend_slot, take_slot_back


class Credit:
    """Counts the bytes and calls under way to one peer.

    Thread  any; `take` blocks while the limit is exceeded
    """

    def __init__(self, max_bytes: int, max_calls: int) -> None:
        self._max_bytes = max_bytes
        self._max_calls = max_calls
        # Guards the fields below. Threads that wait for credit use a condition of this lock.
        self._lock = threading.RLock()
        self._returned = threading.Condition(self._lock)
        self._bytes = 0
        self._calls = 0
        self._waiting = 0

    def take(self, size_bytes: int, deadline: float | None = None) -> bool:
        """Wait until a call is within the limits, and count it; return False at the deadline.

        Note    a call that is larger than `max_bytes` waits until no other call is under way
        """
        with self._lock:
            if self._has_room(size_bytes):
                self._bytes += size_bytes
                self._calls += 1
                return True
        hand_on_lead()
        lent = lend_slot()
        try:
            return self._wait(size_bytes, deadline)
        finally:
            if lent is not None:
                take_slot_back(lent)

    def _wait(self, size_bytes: int, deadline: float | None) -> bool:
        with self._lock:
            self._waiting += 1
            timeout = None if deadline is None else max(0.0, deadline - time.monotonic())
            came = self._returned.wait_for(lambda: self._has_room(size_bytes), timeout)
            self._waiting -= 1
            if came:
                self._bytes += size_bytes
                self._calls += 1
            return came

    def give_back(self, size_bytes: int) -> None:
        """Subtract a call that has ended, and wake the threads in `take`."""
        with self._lock:
            self._bytes -= size_bytes
            self._calls -= 1
            if self._waiting:
                self._returned.notify_all()

    def under_way(self) -> tuple[int, int]:
        """Return the number of bytes and the number of calls under way."""
        with self._lock:
            return self._bytes, self._calls

    def _has_room(self, size_bytes: int) -> bool:
        if not self._calls:
            return True
        return self._bytes + size_bytes <= self._max_bytes and self._calls < self._max_calls
