"""Named stretches of time, thread by thread: written by whoever works, read by whoever asks why.

Who writes on a hot path asks the flag first, and pays one attribute while nobody listens:

    start_ns = clock() if time_ranges.on else 0
    ...
    if start_ns:
        time_ranges.add("mul", "op", start_ns)

Elsewhere `with time_range("epoch 3", "user"):` is enough. Who reads takes a Recording.
"""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Final, NamedTuple, Self

# Monotonic and the same for all threads of a process; Recording.wall_offset_ns leads to the
# calendar, and so to the ranges of other processes.
clock: Final = time.perf_counter_ns
MOST_RANGES: Final = 1_000_000


class TimeRange(NamedTuple):
    """What a thread did from start to stop.

    Units   nanoseconds of `clock`
    """

    name: str
    category: str
    start_ns: int
    stop_ns: int
    thread_id: int
    thread_name: str


class Recording:
    """All ranges that end between its start and its stop. `with Recording() as r:` does both.

    Thread  any
    Note    keeps the first `limit` ranges and counts the rest in `dropped`, so that a recording
            that somebody forgot does not eat the memory
    """

    def __init__(self, limit: int = MOST_RANGES) -> None:
        self.ranges: list[TimeRange] = []
        self.dropped = 0
        self.wall_offset_ns = time.time_ns() - clock()
        self._limit = limit

    def start(self) -> Self:
        """Listen from now on."""
        time_ranges.listen(self)
        return self

    def stop(self) -> list[TimeRange]:
        """Listen no more; return the ranges, in the order in which they began."""
        time_ranges.forget(self)
        # Sorted aside: a thread that is about to add its last range still has the old list.
        return sorted(self.ranges, key=lambda known: known.start_ns)

    def take(self, known: TimeRange) -> None:
        """Keep one range."""
        if len(self.ranges) < self._limit:
            self.ranges.append(known)
        else:
            self.dropped += 1

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()


class TimeRanges:
    """Where ranges are handed in; there is one, and `on` says whether anybody listens."""

    __slots__ = ("_listeners", "_listeners_lock", "on")

    def __init__(self) -> None:
        self.on = False
        # Guards the change of _listeners, which is replaced and never changed: add reads it bare.
        self._listeners_lock = threading.Lock()
        self._listeners: tuple[Recording, ...] = ()

    def add(self, name: str, category: str, start_ns: int, stop_ns: int | None = None) -> None:
        """Hand in a range of the calling thread, which ends now unless it is said when."""
        stop_ns = clock() if stop_ns is None else stop_ns
        known = TimeRange(
            name, category, start_ns, stop_ns, threading.get_ident(), _thread.name_or_find()
        )
        for recording in self._listeners:
            recording.take(known)

    def listen(self, recording: Recording) -> None:
        """Let a recording have all ranges from now on."""
        with self._listeners_lock:
            if recording not in self._listeners:
                self._listeners = (*self._listeners, recording)
            self.on = True

    def forget(self, recording: Recording) -> None:
        """Let a recording have no more ranges. It need not be listening."""
        with self._listeners_lock:
            self._listeners = tuple(r for r in self._listeners if r is not recording)
            self.on = bool(self._listeners)


class _Thread(threading.local):
    name: str | None = None

    def name_or_find(self) -> str:
        if self.name is None:
            # Not current_thread(), which files a stand-in for threads that Python did not start.
            mine = threading.get_ident()
            names = [known.name for known in threading.enumerate() if known.ident == mine]
            self.name = names[0] if names else f"thread {mine}"
        return self.name


_thread = _Thread()
time_ranges: Final = TimeRanges()


class time_range:
    """Hand in the time that a block takes, even if it raises. Not to be entered twice at once."""

    __slots__ = ("_category", "_name", "_start_ns")

    def __init__(self, name: str, category: str) -> None:
        self._name = name
        self._category = category

    def __enter__(self) -> None:
        self._start_ns = clock() if time_ranges.on else 0

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._start_ns:
            time_ranges.add(self._name, self._category, self._start_ns)
