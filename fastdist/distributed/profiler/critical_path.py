"""The critical path of a distributed backward pass: the longest chain of events up to its end."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Final

from ...profiler.function_event import Arrow, FunctionEvent
from .group_recording import CAME, SENT

PASS: Final = "pass"
_OF_A_PASS: Final = frozenset({"backward", "kernel", SENT, CAME})


def critical_events(events: Sequence[FunctionEvent], arrows: Sequence[Arrow]) -> frozenset[int]:
    """Return the id() of each event on the critical path of any pass in `events`.

    A path is traced backwards from the end of its pass. An event may have waited for an earlier
    event of the same worker, or for gradients that this worker received. The latest of these events
    precedes it on the path. The event that received gradients is preceded by the event that sent
    them.
    """
    senders = {
        id(arrow.receiver): arrow.sender for arrow in arrows if arrow.receiver.category == CAME
    }
    found: set[int] = set()
    for one_pass in events:
        if one_pass.category == PASS:
            found |= _path_of(one_pass, events, senders)
    return frozenset(found)


def _path_of(
    one_pass: FunctionEvent,
    events: Sequence[FunctionEvent],
    senders: Mapping[int, FunctionEvent],
) -> set[int]:
    began, ended = one_pass.time_range
    inside = [
        event
        for event in events
        if event.category in _OF_A_PASS and began <= event.time_range.start <= ended
    ]
    came = [event for event in inside if id(event) in senders]
    steps = [event for event in inside if id(event) not in senders]
    steps.sort(key=_end_of)
    ends = [_end_of(step) for step in steps]
    path = {id(one_pass)}
    event = steps[bisect_right(ends, ended) - 1] if ends and ends[0] <= ended else None
    while event is not None and id(event) not in path:
        path.add(id(event))
        start, node = event.time_range.start, event.node_id
        done = map(steps.__getitem__, range(bisect_right(ends, start) - 1, -1, -1))
        latest = next((s for s in done if s.node_id == node and s is not event), None)
        brought = [one for one in came if one.node_id == node and one.time_range.start <= start]
        message = max(brought, key=_start_of, default=None)
        if message is None or (latest is not None and _end_of(latest) > _start_of(message)):
            event = latest
        else:
            path.add(id(message))
            event = senders[id(message)]
    return path


def _start_of(event: FunctionEvent) -> float:
    return event.time_range.start


def _end_of(event: FunctionEvent) -> float:
    return event.time_range.end
