"""A profile of this process's work for requests of other workers, in all its threads."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from typing import Self

from fastdist.autograd.profiler import profile
from fastdist.instrumentation.time_ranges import Wanted
from fastdist.profiler.events import events_of
from fastdist.profiler.function_event import FunctionEvent

from ...profiler.served import ServedRecording
from ..calls.serving import Incoming

# Guards the three below it. While a profile is open requests are run by _run, which stands in for
# Incoming.run: with none open they find what they always find.
_lock = threading.Lock()
_open: dict[int, list[ServedRecording]] = {}
_wanted: dict[int, Wanted] = {}
_number = 0
_run_unwatched = Incoming.run


class _server_process_global_profile(profile):
    """`with ... as p:` records the requests of other workers that run here meanwhile.

    `process_global_function_events` has a list of events for each request that did anything, and
    `function_events` all of them. If rpc.remote makes it on another worker, its methods are called
    by `rref.rpc_sync()`. Several may be open at once. Work of an async_execution function on other
    threads is not recorded.

    Raises  RuntimeError if it is entered again
    Source  PyTorch, torch/distributed/rpc/server_process_global_profiler.py
    """

    process_global_function_events: list[list[FunctionEvent]]

    def __enter__(self) -> Self:
        global _number
        if not self.enabled:
            return self
        if self.entered:
            raise RuntimeError("autograd profiler traces are not reentrant")
        self.entered = True
        with _lock:
            self._number = _number = _number + 1
            _open[_number], _wanted[_number] = [], self._profile._wanted()
            Incoming.run = _run  # type: ignore[assignment, method-assign]
        return self

    def __exit__(self, *error: object) -> None:
        if not self.enabled:
            return
        with _lock:
            recordings = _open.pop(self._number)
            del _wanted[self._number]
            if not _open:
                Incoming.run = _run_unwatched  # type: ignore[method-assign]
        for recording in recordings:
            recording.await_devices()
        requests = [some for one in recordings if (some := [*one.ranges])]
        ranges = [(one, place) for place, some in enumerate(requests) for one in some]
        # As events_of has them.
        ranges.sort(key=lambda pair: (pair[0].start_ns, -pair[0].stop_ns))
        self._events = events_of([one for one, _ in ranges])
        found: list[list[FunctionEvent]] = [[] for _ in requests]
        for event, (_, place) in zip(self._events, ranges, strict=True):
            found[place].append(event)
        self.process_global_function_events = found


def _run(request: Incoming) -> None:
    """Run a request, and let the profiles that are open by then have what it does."""
    with _lock:
        if _open:
            recording = ServedRecording(Wanted(*map(any, zip(*_wanted.values(), strict=True))))
            # Now: who has its answer may close a profile before this thread goes on.
            for recordings in _open.values():
                recordings.append(recording)
        else:
            recording = None  # taken in before the last one was closed
    with nullcontext() if recording is None else recording.here():
        _run_unwatched(request)
