"""Start and end times of the parts of an iteration of DistributedDataParallel."""

from __future__ import annotations

import threading
import time
from typing import Final

_ALL_BEFORE: Final = 10


class Times:
    """Collects the durations of parts of iterations, in nanoseconds, and computes their means."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._marks: dict[str, int] = {}
        self._sums: dict[str, int] = {}
        self._counts: dict[str, int] = {}
        # After the first _ALL_BEFORE iterations, one iteration in sample_rate is recorded.
        self.sample_rate = 1
        # The 0-based index of the last iteration whose times were recorded.
        self.last_kept = 0
        self._iterations = 0

    def mark(self, name: str, *, keep: bool = False) -> None:
        """Record the current time under a name; with `keep`, an earlier time is not replaced."""
        with self._lock:
            if not (keep and name in self._marks):
                self._marks[name] = time.perf_counter_ns()

    def finish(self) -> None:
        """Add the durations of the iteration that ends now, if it is to be recorded."""
        with self._lock:
            marks, self._marks = self._marks, {}
            number = self._iterations
            self._iterations += 1
            if number >= _ALL_BEFORE and number % self.sample_rate:
                return
            self.last_kept = number
            for name, begin, end in (
                ("forward_compute_time", "forward", "forward_end"),
                ("backward_compute_time", "backward", "backward_end"),
                ("backward_comm_time", "comm", "comm_end"),
            ):
                if begin in marks and end in marks:
                    self._add(name, marks[end] - marks[begin])
            if {"comm", "backward_end", "comm_end"} <= marks.keys():
                overlap = min(marks["backward_end"], marks["comm_end"]) - marks["comm"]
                self._add("backward_compute_comm_overlap_time", max(0, overlap))

    def _add(self, name: str, duration: int) -> None:
        self._sums[name] = self._sums.get(name, 0) + duration
        self._counts[name] = self._counts.get(name, 0) + 1
        self._sums[f"last {name}"] = duration

    def means(self) -> dict[str, int]:
        """Return the last and the mean duration of each part, with PyTorch's names."""
        with self._lock:
            found = {}
            for name, count in self._counts.items():
                found[name] = self._sums[f"last {name}"]
                found[f"avg_{name}"] = self._sums[name] // count
            return found
