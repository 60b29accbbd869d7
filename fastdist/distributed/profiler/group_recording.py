"""A worker's recording for a profile of the complete group."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final

from ...graph import recordings
from ...instrumentation.time_ranges import Recording, TimeRange, Wanted, clock, time_ranges

# Categories: a call from another worker, gradients that were sent, gradients that arrived.
SERVED: Final = "served"
SENT: Final = "sent"
CAME: Final = "came"


class GroupRecording(Recording):
    """All work of this worker; the callees of its calls record their own work."""

    follows_calls = False

    def take(self, known: TimeRange) -> None:
        """Keep a range if it was recorded on this worker."""
        if not known.is_remote:
            super().take(known)

    def note_departure(self, to: int, flow_id: int) -> None:
        """Record that gradients are sent to worker `to`."""
        now_ns = clock()
        self._note(f"gradients to worker {to}", SENT, now_ns, now_ns, flow_id)

    def note_arrival(self, sender: int, flow_id: int) -> None:
        """Record that gradients have arrived. This is called before the gradients are handled,
        because their pass may then end.
        """
        now_ns = clock()
        self._note(f"gradients of worker {sender}", CAME, now_ns, now_ns, flow_id)

    @contextmanager
    def around(
        self, opened: AbstractContextManager[Any], sender: int, flow_id: int
    ) -> Iterator[None]:
        """Record the duration of a served call, which runs inside of `opened`."""
        start_ns = clock()
        try:
            with opened:
                yield
        finally:
            self._note(f"call of worker {sender}", SERVED, start_ns, clock(), flow_id)

    def _note(self, name: str, category: str, start_ns: int, stop_ns: int, flow_id: int) -> None:
        thread = threading.get_ident(), time_ranges.thread_name()
        known = TimeRange(
            *(name, category, start_ns, stop_ns, *thread, time_ranges.node_id), flow_id=flow_id
        )
        self.take(known)


_recording: GroupRecording | None = None


def group_recording() -> GroupRecording | None:
    """Return this worker's recording for the group; None if the group is not profiled."""
    return _recording


def begin(wanted: Wanted) -> None:
    """Start to record for the group; on an error nothing is recorded."""
    global _recording
    _recording = GroupRecording(wanted=wanted)
    try:
        recordings.begin(_recording)
    except BaseException:
        _recording = None
        raise


def end() -> GroupRecording | None:
    """End the recording and return it; None if the group is not profiled."""
    global _recording
    recording, _recording = _recording, None
    if recording is not None:
        recording.ranges = recordings.end(recording)
    return recording
