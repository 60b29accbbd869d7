"""Measures the time that a worker spends on each kind of work: totals, and the latest ranges."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

_KEPT_RANGES = 256


class Range(NamedTuple):
    """One worker did `kind` from start_s to end_s, in seconds of a common clock."""

    worker: str
    kind: str
    start_s: float
    end_s: float


class Stopwatch:
    """Measures kinds of work by the system clock, which the workers of a machine share.

    Thread  any: RPC calls run in several threads
    """

    def __init__(self, worker: str) -> None:
        self._worker = worker
        self._offset_s = time.time() - time.perf_counter()
        # Guards the two attributes below.
        self._totals_lock = threading.Lock()
        self._totals: dict[str, float] = {}
        self._ranges: deque[Range] = deque(maxlen=_KEPT_RANGES)

    @contextmanager
    def measure(self, kind: str) -> Iterator[None]:
        """Measure the time of this `with` block as work of a kind."""
        start = self.now()
        try:
            yield
        finally:
            self.add(kind, start, self.now())

    def now(self) -> float:
        """Return the time in seconds."""
        return time.perf_counter() + self._offset_s

    def add(self, kind: str, start_s: float, end_s: float) -> None:
        """Add a range that was measured elsewhere."""
        with self._totals_lock:
            self._totals[kind] = self._totals.get(kind, 0.0) + end_s - start_s
            latest = self._ranges[-1] if self._ranges else None
            if latest is not None and (latest.kind, latest.end_s) == (kind, start_s):
                # The new range continues the latest range: merge the two.
                self._ranges.pop()
                start_s = latest.start_s
            self._ranges.append(Range(self._worker, kind, start_s, end_s))

    def totals(self) -> dict[str, float]:
        """Return the seconds spent on each kind."""
        with self._totals_lock:
            return dict(self._totals)

    def ranges(self) -> list[Range]:
        """Return the latest ranges, ordered by their ends."""
        with self._totals_lock:
            return list(self._ranges)
