"""Which calls expire when: those of one time together."""

from __future__ import annotations

import heapq
import math
import threading
from typing import Final, Generic, TypeVar

# Calls whose deadlines fall into the same hundredth of a second expire together, at its end: so
# that most calls only join a list, and no call expires early.
BUCKET_S: Final = 0.01


T = TypeVar("T")


class Timeouts(Generic[T]):
    """Deadlines of calls.

    Thread  any
    Units   deadlines in seconds of time.monotonic()
    """

    def __init__(self) -> None:
        # Guards all below it.
        self._lock = threading.Lock()
        # Those of one time in the order in which they came: a simulation repeats itself.
        self._calls_at: dict[int, dict[T, None]] = {}
        self._times: list[int] = []
        self._sleeping_until = math.inf
        self._is_closed = False

    def add(self, call: T, deadline: float) -> bool:
        """Let a call expire at deadline; return whether the sleeping thread must be woken."""
        bucket = math.ceil(deadline / BUCKET_S)
        with self._lock:
            if self._is_closed:
                return False
            calls = self._calls_at.get(bucket)
            if calls is None:
                calls = self._calls_at[bucket] = {}
                heapq.heappush(self._times, bucket)
            calls[call] = None
            must_wake = bucket * BUCKET_S < self._sleeping_until
            if must_wake:
                # Whoever comes next with a later deadline need not ring again.
                self._sleeping_until = bucket * BUCKET_S
            return must_wake

    def remove(self, call: T, deadline: float) -> None:
        """Let a call live on that was to expire at deadline; nothing happens if it has."""
        with self._lock:
            self._calls_at.get(math.ceil(deadline / BUCKET_S), {}).pop(call, None)

    def expire(self, now: float) -> list[T]:
        """Forget and return the calls whose time has come."""
        expired: list[T] = []
        with self._lock:
            while self._times and self._is_over(self._times[0], now):
                expired += self._calls_at.pop(heapq.heappop(self._times))
        return expired

    def sleep_until(self, alarm: float = math.inf) -> float:
        """Return the next time to look, which a later add may bring forward; inf for never.

        Who sleeps looks at the time of `alarm` in any case, and need not be woken for what expires
        after it: nearly every call does, and a lone one would wake the thread each time.
        """
        with self._lock:
            expires = self._times[0] * BUCKET_S if self._times else math.inf
            self._sleeping_until = min(expires, alarm)
            return self._sleeping_until

    def close(self) -> None:
        """Let no call expire any more: each hears of the end that is to come."""
        with self._lock:
            self._is_closed = True
            self._calls_at.clear()
            self._times.clear()

    def __len__(self) -> int:
        with self._lock:
            return sum(map(len, self._calls_at.values()))

    def _is_over(self, bucket: int, now: float) -> bool:
        # A list that emptied before its time goes as well.
        return bucket * BUCKET_S <= now or not self._calls_at[bucket]
