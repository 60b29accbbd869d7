"""What was recorded: events and their averages, as a table or a trace for chrome://tracing."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..core.time_ranges import TimeRange

_CATEGORIES = {"op": "cpu_op", "backward": "cpu_op", "user": "user_annotation"}
_SORTED_BY = frozenset(
    {
        "count", "cpu_time", "cpu_time_total", "device_time", "device_time_total",
        "self_cpu_time_total", "self_device_time_total",
    }
)  # fmt: skip


class Interval(NamedTuple):
    """From when to when.

    Units   microseconds since the recording began
    """

    start: float
    end: float

    def elapsed_us(self) -> float:
        """Return how long it is."""
        return self.end - self.start


class FunctionEvent:
    """One op, gradient or stretch of the user's; times are in microseconds.

    `self_cpu_time_total` is its time without that of the events inside of it
    """

    device_time = device_time_total = self_device_time_total = 0.0

    def __init__(self, known: TimeRange, origin_ns: int) -> None:
        self.name = self.key = known.name
        self.category = known.category
        self.thread = known.thread_id
        self.thread_name = known.thread_name
        start, end = ((t - origin_ns) / 1e3 for t in (known.start_ns, known.stop_ns))
        self.time_range = Interval(start, end)
        self.cpu_time = self.cpu_time_total = self.self_cpu_time_total = end - start
        self.count = 1
        self.cpu_parent: FunctionEvent | None = None
        self.cpu_children: list[FunctionEvent] = []

    def __repr__(self) -> str:
        return f"<FunctionEvent name={self.name} cpu_time={self.cpu_time:.3f}us>"


class FunctionEventAvg:
    """All events of one name; times are in microseconds."""

    device_time = device_time_total = self_device_time_total = 0.0

    def __init__(self, key: str, events: Sequence[FunctionEvent]) -> None:
        self.key = key
        self.count = len(events)
        self.self_cpu_time_total = sum(event.self_cpu_time_total for event in events)
        # What is inside of an event of its own name is counted there.
        self.cpu_time_total = sum(e.cpu_time_total for e in events if not _inside_its_like(e))

    @property
    def cpu_time(self) -> float:
        """The mean time of one."""
        return self.cpu_time_total / max(self.count, 1)

    def __repr__(self) -> str:
        return (
            f"<FunctionEventAvg key={self.key} self_cpu_time={self.self_cpu_time_total:.3f}us "
            f"cpu_time={self.cpu_time:.3f}us count={self.count}>"
        )


def _inside_its_like(event: FunctionEvent) -> bool:
    parent = event.cpu_parent
    while parent is not None and parent.name != event.name:
        parent = parent.cpu_parent
    return parent is not None


class EventList(list[Any]):
    """Events or averages, in order."""

    @property
    def self_cpu_time_total(self) -> float:
        """The time of all, each stretch counted once."""
        return float(sum(event.self_cpu_time_total for event in self))

    def key_averages(
        self, group_by_input_shapes: bool = False, group_by_stack_n: int = 0, **more: Any
    ) -> EventList:
        """Return one average for each name, in the order in which they first occur."""
        named: dict[str, list[FunctionEvent]] = {}
        for event in self:
            named.setdefault(event.name, []).append(event)
        return EventList(FunctionEventAvg(key, events) for key, events in named.items())

    def total_average(self) -> FunctionEventAvg:
        """Return the sum of all."""
        return FunctionEventAvg("Total", self)

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        header: str | None = None,
        **more: Any,
    ) -> str:
        """Return a table, a row an entry, the largest first by sort_by if it is given.

        Raises  ValueError for a column that nobody knows
        """
        rows = list(self)
        if sort_by is not None:
            wanted = sort_by.replace("cuda", "device")
            if wanted not in _SORTED_BY:
                raise ValueError(f"table: sort_by is {sort_by!r}, one of {sorted(_SORTED_BY)}")
            rows.sort(key=lambda row: -float(getattr(row, wanted)))
        total = self.self_cpu_time_total
        cells = [_row(row, total) for row in (rows if row_limit < 0 else rows[:row_limit])]
        columns = ["Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg"]
        columns.append("# of Calls")
        widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
        rule = "  ".join("-" * width for width in widths)
        lines = [
            "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
            for row in [columns, *cells]
        ]
        head = [] if header is None else ["=" * len(rule), header]
        body = [rule, lines[0], rule, *lines[1:], rule]
        return "\n".join([*head, *body, f"Self CPU time total: {_duration(total)}", ""])

    def __str__(self) -> str:
        return self.table()

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write what chrome://tracing and Perfetto read."""
        pid = os.getpid()
        threads = {event.thread: event.thread_name for event in self}
        listed: list[dict[str, Any]] = [
            {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": name}}
            for tid, name in threads.items()
        ]
        listed += [
            {
                "ph": "X",
                "cat": _CATEGORIES.get(event.category, event.category),
                "name": event.name,
                "pid": pid,
                "tid": event.thread,
                "ts": event.time_range.start,
                "dur": event.time_range.elapsed_us(),
            }
            for event in self
        ]
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"schemaVersion": 1, "traceEvents": listed}, file)


def events_of(ranges: Sequence[TimeRange]) -> EventList:
    """Return events of ranges that are in the order in which they began, each with those inside."""
    origin_ns = ranges[0].start_ns if ranges else 0
    events = EventList()
    open_ones: dict[int, list[FunctionEvent]] = {}
    # Of two that begin at once the longer is around the other.
    for known in sorted(ranges, key=lambda one: (one.start_ns, -one.stop_ns)):
        event = FunctionEvent(known, origin_ns)
        stack = open_ones.setdefault(event.thread, [])
        while stack and stack[-1].time_range.end < event.time_range.end:
            stack.pop()
        if stack:
            event.cpu_parent = stack[-1]
            stack[-1].cpu_children.append(event)
            stack[-1].self_cpu_time_total -= event.cpu_time
        stack.append(event)
        events.append(event)
    return events


def _row(row: Any, total: float) -> list[str]:
    whole = total or 1.0
    return [
        row.key,
        f"{100 * row.self_cpu_time_total / whole:.2f}%",
        _duration(row.self_cpu_time_total),
        f"{100 * row.cpu_time_total / whole:.2f}%",
        _duration(row.cpu_time_total),
        _duration(row.cpu_time),
        str(row.count),
    ]


def _duration(us: float) -> str:
    if us >= 1e6:
        return f"{us / 1e6:.3f}s"
    return f"{us / 1e3:.3f}ms" if us >= 1e3 else f"{us:.3f}us"
