"""A profile of this process's work for other workers, in all its threads."""

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

# Guards the three variables below. While a profile is open, `_run` replaces `Incoming.run`. At all
# other times requests run without any overhead.
_lock = threading.Lock()
_open: dict[int, list[ServedRecording]] = {}
_wanted: dict[int, Wanted] = {}
_number = 0
_run_unwatched = Incoming.run


class _server_process_global_profile(profile):
    """`with ... as p:` records other workers' requests that run in this process during the block.

    `process_global_function_events` has a list of events for each request that had any event;
    `function_events` has all events. If rpc.remote created the profile on another worker, call the
    profile's methods by `rref.rpc_sync()`. Several profiles may be open at a time. If an
    async_execution function works on other threads, that work is not recorded.

    Raises  RuntimeError if a profile is entered again
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
        # Sort the ranges in the order of the events from `events_of`, to zip them below.
        ranges.sort(key=lambda pair: (pair[0].start_ns, -pair[0].stop_ns))
        self._events = events_of([one for one, _ in ranges])
        found: list[list[FunctionEvent]] = [[] for _ in requests]
        for event, (_, place) in zip(self._events, ranges, strict=True):
            found[place].append(event)
        self.process_global_function_events = found


def _run(request: Incoming) -> None:
    """Run a request, and record it for the profiles that are open now."""
    with _lock:
        if _open:
            recording = ServedRecording(Wanted(*map(any, zip(*_wanted.values(), strict=True))))
            # Add the recording before the run: when the caller has the answer, it may close the
            # profile.
            for recordings in _open.values():
                recordings.append(recording)
        else:
            recording = None  # the last profile was closed after this function was called
    with nullcontext() if recording is None else recording.here():
        _run_unwatched(request)
