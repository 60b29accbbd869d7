"""Merges the time ranges of many workers into one time line, with arrows from sends to receives."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ...instrumentation.time_ranges import TimeRange
from ...profiler.events import EventList, events_of
from ...profiler.function_event import Arrow, FunctionEvent
from ..explain.clocks import Clock
from .critical_path import critical_events
from .group_recording import CAME, SENT, SERVED
from .served import RPC


class TimeLine(NamedTuple):
    """The work of all workers on one clock: events, names of workers, and arrows between events.

    `critical` contains the id() of each event on a critical path.
    """

    events: EventList
    workers: Mapping[int, str]
    arrows: Sequence[Arrow]
    critical: frozenset[int]

    def critical_path(self) -> EventList:
        """Return the events for which the backward passes waited, in order."""
        return EventList(event for event in self.events if id(event) in self.critical)

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write a file for chrome://tracing or Perfetto; it is compressed if the name ends in
        .gz.

        Args:
            path: The path of the JSON file.
        """
        from ...profiler.trace import Trace  # only one worker of the group exports a trace

        Trace(*self).export(path)

    def _repr_html_(self) -> str:
        """Return the time line as an HTML frame for a notebook."""
        from ...instrumentation.notebook import page
        from ...profiler.trace import Trace

        return page(Trace(*self).as_page("fastdist"))

    def export_html(self, path: str | os.PathLike[str], title: str = "fastdist") -> None:
        """Write an HTML page that opens in any browser, offline.

        Args:
            path: The path of the page.
            title: The title of the page.
        """
        from ...profiler.trace import Trace

        Trace(*self).export_html(path, title)


def merge(
    ranges: Mapping[int, Sequence[TimeRange]],
    clocks: Mapping[int, Clock],
    workers: Mapping[int, str],
) -> TimeLine:
    """Return the time line of all ranges; `clocks` convert each worker's times to one clock.

    The keys of all three arguments are worker ids.
    """
    aligned = [
        known._replace(
            start_ns=clocks[worker].ours(known.start_ns),
            stop_ns=clocks[worker].ours(known.stop_ns),
            node_id=worker,
        )
        for worker, all_known in ranges.items()
        for known in all_known
    ]
    events = events_of(sorted(aligned, key=lambda known: known.start_ns))
    arrows = _arrows_between(events)
    return TimeLine(events, workers, arrows, critical_events(events, arrows))


def _arrows_between(events: EventList) -> list[Arrow]:
    calls: dict[int, FunctionEvent] = {}
    senders: dict[int, FunctionEvent] = {}
    for event in events:
        if event.flow_id and event.category == RPC:
            calls[event.flow_id] = event
        elif event.flow_id and event.category == SENT:
            senders[event.flow_id] = event
    arrows: list[Arrow] = []
    for event in events:
        if event.category == SERVED and event.flow_id in calls:
            call = calls[event.flow_id]
            event.name = event.key = event.trace_name = f"{call.name} on its callee"
            (sent, came), (began, ended) = call.time_range, event.time_range
            arrows += [Arrow(call, sent, event, began), Arrow(event, ended, call, came)]
        elif event.category == CAME and event.flow_id in senders:
            sender = senders[event.flow_id]
            sent, came = sender.time_range.start, event.time_range.start
            arrows.append(Arrow(sender, sent, event, came))
    return arrows
