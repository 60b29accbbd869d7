"""The profiles in progress, with notifications when a recording begins and ends."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack

from ..instrumentation.time_ranges import Recording, TimeRange, time_ranges
from ..system.forked_locks import renew_in_children
from .modes import count_tracers, modes

# Guards the two globals below.
_lock = threading.Lock()
renew_in_children(sys.modules[__name__], "_lock")
_num_open = 0
_watchers: list[Callable[[bool], None]] = []


def begin(recording: Recording) -> None:
    """Start a recording, and make ops measure their times. An error undoes all of this."""
    with ExitStack() as undoing:
        recording.start()
        undoing.callback(time_ranges.forget, recording)
        count_tracers(1)
        undoing.callback(count_tracers, -1)
        try:
            _count(1)
        except BaseException:
            _count(-1)
            raise
        undoing.pop_all()


def end(recording: Recording) -> list[TimeRange]:
    """End the recording; return its time ranges."""
    _count(-1)
    count_tracers(-1)
    return recording.stop()


def watch(watcher: Callable[[bool], None]) -> None:
    """Call watcher(True) when the first recording begins, and watcher(False) when the last ends.

    Note    if a recording is open, watcher(True) is also called immediately. A watcher must return
            quickly, because a lock is held during its call
    """
    with _lock:
        _watchers.append(watcher)
        if _num_open:
            watcher(True)


def unwatch(watcher: Callable[[bool], None]) -> None:
    """Remove a watcher; if a recording is open, call it with False first."""
    with _lock:
        _watchers.remove(watcher)
        if _num_open:
            watcher(False)


def _count(change: int) -> None:
    global _num_open
    with _lock:
        before, _num_open = _num_open, _num_open + change
        _let_short_paths_report(is_full=time_ranges.is_full)
        if not before or not _num_open:
            for watcher in _watchers:
                watcher(bool(_num_open))


def _let_short_paths_report(is_full: bool) -> None:
    # `modes.timed` never exceeds the number of profiles that `modes.special` counts, because
    # `begin` increases `modes.special` before this call, and `end` decreases it afterwards.
    modes.timed = 0 if is_full else _num_open


time_ranges.watch("is_full", _let_short_paths_report)
