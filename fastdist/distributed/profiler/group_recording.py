"""A worker's recording while somebody profiles the whole group."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final

from ...graph import recordings
from ...instrumentation.time_ranges import Recording, TimeRange, Wanted, clock, time_ranges

# Categories: a call of another worker that ran here; gradients that were sent; and that came.
SERVED: Final = "served"
SENT: Final = "sent"
CAME: Final = "came"


class GroupRecording(Recording):
    """All that this worker does; what it makes others do they record themselves."""

    follows_calls = False

    def take(self, known: TimeRange) -> None:
        """Keep what was done here."""
        if not known.is_remote:
            super().take(known)

    def note_departure(self, to: int, flow_id: int) -> None:
        """Note that gradients leave."""
        now_ns = clock()
        self._note(f"gradients to worker {to}", SENT, now_ns, now_ns, flow_id)

    def note_arrival(self, sender: int, flow_id: int) -> None:
        """Note that gradients have come: their pass may be over before they are through."""
        now_ns = clock()
        self._note(f"gradients of worker {sender}", CAME, now_ns, now_ns, flow_id)

    @contextmanager
    def around(
        self, opened: AbstractContextManager[Any], sender: int, flow_id: int
    ) -> Iterator[None]:
        """Record how long a call takes here, which is done inside of `opened`."""
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
    """Return this worker's recording for the group; None while nobody profiles it."""
    return _recording


def begin(wanted: Wanted) -> None:
    """Record for the group from now on; if that fails, nothing is recorded."""
    global _recording
    _recording = GroupRecording(wanted=wanted)
    try:
        recordings.begin(_recording)
    except BaseException:
        _recording = None
        raise


def end() -> GroupRecording | None:
    """End what begin began; return it, or None if nobody profiles the group."""
    global _recording
    recording, _recording = _recording, None
    if recording is not None:
        recording.ranges = recordings.end(recording)
    return recording
