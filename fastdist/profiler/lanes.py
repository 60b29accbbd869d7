"""The rows of a time line: one for each thread of each process, and for each stream of a device."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from .function_event import FunctionEvent

_WORDS: Final = re.compile(r"(\d+)")


class Lane(NamedTuple):
    """A row. Python may reuse a thread's id for a later thread; these threads have separate rows.
    `waits` is true for a row of remote calls, which overlap.
    """

    process: int
    is_stream: bool
    thread: int
    name: str
    waits: bool


def process_of(event: FunctionEvent) -> int:
    """Return the id of the worker, or outside of a group, the id of the process."""
    return event.node_id if event.node_id >= 0 else os.getpid()


def lane_of(event: FunctionEvent) -> Lane:
    """Return the row of an event."""
    is_stream = event.category == "kernel"
    return Lane(process_of(event), is_stream, event.thread, event.thread_name, event.is_async)


def lanes_of(events: Sequence[FunctionEvent]) -> list[Lane]:
    """Return all rows, sorted by process. Threads precede streams; the main thread is first."""
    return sorted(dict.fromkeys(map(lane_of, events)), key=_place_of)


def _place_of(lane: Lane) -> tuple[Any, ...]:
    # pool-2 precedes pool-10, and a thread's remote calls are next to the thread's other work.
    words = [(len(word), word) if word.isdigit() else (0, word) for word in _WORDS.split(lane.name)]
    return lane.process, lane.is_stream, lane.name != "MainThread", words, lane.thread, lane.waits
