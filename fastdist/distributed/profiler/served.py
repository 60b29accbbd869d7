"""The recording of one request: the work of its function, in all threads that take part."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from ...concurrency.future import Executor
from ...graph import recordings
from ...instrumentation.time_ranges import (
    DeviceWork,
    Recording,
    TimeRange,
    Wanted,
    range_of_op,
    time_ranges,
)

# The largest number of ranges that are kept per request.
MOST_RANGES: Final = 20_000
# The category of ranges that a call adds to the recording of the calling thread.
RPC: Final = "rpc"


class ServedRecording(Recording):
    """The work of a call from another worker.

    Thread  any; `here` may be open in several threads at a time
    """

    follows_calls = False  # ignores the calls of other threads
    adds_ops = False

    def __init__(self, wanted: Wanted) -> None:
        super().__init__(MOST_RANGES, wanted=wanted)
        self._lock = threading.Lock()  # guards _threads
        self._threads: list[int] = []

    @contextmanager
    def here(self) -> Iterator[None]:
        """Record the work and the calls of this thread in the block."""
        me, outer = threading.get_ident(), _here.recording
        with self._lock:
            self._threads.append(me)
            if len(self._threads) == 1:
                recordings.begin(self)
        _here.recording = self
        try:
            yield
        finally:
            _here.recording = outer
            with self._lock:
                self._threads.remove(me)
                if not self._threads:
                    recordings.end(self)

    def stop(self) -> list[TimeRange]:
        """Stop recording. Work on devices is awaited later, when the answer is sent."""
        time_ranges.forget(self)
        return self.ranges

    def take(self, known: TimeRange) -> None:
        """Keep the range of work that a thread of the request did itself."""
        if known.thread_id in self._threads and known.category != RPC and not known.is_remote:
            super().take(known)

    def take_op(self, given: tuple[Any, ...]) -> None:
        """Keep an op of a thread of the request."""
        self.take(range_of_op(*given))

    def await_work(self, work: DeviceWork) -> None:
        """Add the range of a device's work for the request when that work is done."""
        if threading.get_ident() in self._threads:
            super().await_work(work)


class _Here(threading.local):
    recording: ServedRecording | None = None


_here: Final = _Here()


def recording_here() -> ServedRecording | None:
    """Return the recording of the request for which this thread works."""
    return _here.recording


class Following:
    """A pool whose jobs are recorded as work of the request to which `recording` belongs."""

    def __init__(self, pool: Executor, recording: ServedRecording) -> None:
        self._pool = pool
        self._recording = recording

    def submit(self, function: Callable[..., object], *arguments: object) -> bool:
        """Run function(*arguments) on a thread of the pool; return False if the pool is closed."""
        return self._pool.submit(self._run, function, *arguments)

    def _run(self, function: Callable[..., object], *arguments: Any) -> None:
        with self._recording.here():
            function(*arguments)
