"""Writes events to files: traces for chrome://tracing and Perfetto, and HTML pages."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from .function_event import Arrow, FunctionEvent
from .lanes import Lane, lane_of, lanes_of, process_of
from .page import page_of

_CATEGORIES: Final = {
    "op": "cpu_op",
    "backward": "cpu_op",
    "user": "user_annotation",
    "module": "python_function",
}


class Trace(NamedTuple):
    """The events to draw, the arrows between events, and the id() of each critical event.
    `metadata` maps names to more values for the trace file.
    """

    events: Sequence[FunctionEvent]
    workers: Mapping[int, str] = {}
    arrows: Sequence[Arrow] = ()
    critical: Collection[int] = frozenset()
    metadata: Mapping[str, Any] = {}

    def for_chrome(self) -> dict[str, Any]:
        """Return the JSON for chrome://tracing and Perfetto. Each worker is a process, and each
        thread or stream is a row. Arrows lead from an op to its gradient, and to the device work
        of the op.
        """
        lanes = {lane: number for number, lane in enumerate(lanes_of(self.events), 1)}
        listed: list[dict[str, Any]] = self._names_of(lanes)
        for number, event in enumerate(self.events):
            listed += self._event_for_chrome(event, lanes[lane_of(event)], number)
        drawn = [("message", arrow) for arrow in self.arrows]
        drawn += [(_LINKS[e.category], _link(e.cause, e)) for e in self.events if e.cause]
        for number, (name, arrow) in enumerate(drawn):
            ends = (("s", arrow.sender, arrow.sent_us), ("f", arrow.receiver, arrow.came_us))
            listed += [
                {"ph": kind, "bp": "e", "cat": name, "name": name, "id": number}
                | {"pid": process_of(event), "tid": lanes[lane_of(event)], "ts": moment_us}
                for kind, event, moment_us in ends
            ]
        told = {"schemaVersion": 1, "displayTimeUnit": "ms", "traceEvents": listed}
        return {**self.metadata, **told}

    def _names_of(self, lanes: Mapping[Lane, int]) -> list[dict[str, Any]]:
        nodes = {process_of(event): self._worker(event.node_id) for event in self.events}
        rows: list[tuple[str, int, int, str, Any]] = []
        for pid, name in sorted(nodes.items()):
            rows += [("process_name", pid, 0, "name", name)] if name else []
            rows.append(("process_sort_index", pid, 0, "sort_index", pid))
        for lane, tid in lanes.items():
            rows.append(("thread_name", lane.process, tid, "name", lane.name))
            rows.append(("thread_sort_index", lane.process, tid, "sort_index", tid))
        return [
            {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {key: value}}
            for what, pid, tid, key, value in rows
        ]

    def _event_for_chrome(
        self, event: FunctionEvent, tid: int, number: int
    ) -> list[dict[str, Any]]:
        category = _CATEGORIES.get(event.category, event.category)
        start_us, end_us = event.time_range
        told: dict[str, Any] = {"cat": category, "name": event.trace_name}
        told |= {"pid": process_of(event), "tid": tid, "ts": start_us}
        args = _args_of(event)
        if id(event) in self.critical:
            told["cname"], args["critical"] = "terrible", True
        told |= {"args": args} if args else {}
        if not event.is_async:
            return [told | {"ph": "X", "dur": end_us - start_us}]
        # Remote calls overlap, but events in a row must not. So calls are asynchronous trace
        # events.
        ids = {"id": f"call {number}"}
        return [told | ids | {"ph": "b"}, told | ids | {"ph": "e", "ts": end_us}]

    def as_page(self, title: str) -> str:
        """Return an HTML page that shows the time line and loads no other files."""
        places = {id(event): place for place, event in enumerate(self.events)}
        arrows = [
            (places[id(arrow.sender)], arrow.sent_us, places[id(arrow.receiver)], arrow.came_us)
            for arrow in self.arrows
        ]
        nodes = {process_of(event): self._worker(event.node_id) for event in self.events}
        return page_of(title, self.events, nodes, arrows, self.critical)

    def _worker(self, node_id: int) -> str:
        return self.workers.get(node_id, f"worker {node_id}") if node_id >= 0 else ""

    def export(self, path: str | os.PathLike[str]) -> None:
        """Write the trace as JSON, compressed if the name ends in .gz."""
        is_packed = os.fspath(path).endswith(".gz")
        with gzip.open(path, "wt") if is_packed else open(path, "w", encoding="utf-8") as file:
            json.dump(self.for_chrome(), file)

    def export_html(self, path: str | os.PathLike[str], title: str) -> None:
        """Write the HTML page."""
        Path(path).write_text(self.as_page(title), encoding="utf-8")


# PyTorch's names for an arrow from an op to an event, by the category of this event.
_LINKS: Final = {"backward": "fwdbwd", "kernel": "ac2g"}


def _link(cause: FunctionEvent, event: FunctionEvent) -> Arrow:
    return Arrow(cause, cause.time_range.start, event, event.time_range.start)


def _args_of(event: FunctionEvent) -> dict[str, Any]:
    told: dict[str, Any] = {
        "Input Dims": event.input_shapes,
        "Call stack": ";".join(reversed(event.stack)),
        "Module Hierarchy": event.module_hierarchy,
        "Flops": event.flops,
        "CPU Mem": event.cpu_memory_usage,
        "Device Mem": event.device_memory_usage,
    }
    told = {name: value for name, value in told.items() if value}
    if event.sequence_nr >= 0:
        told["Sequence number"] = event.sequence_nr
    if event.category == "kernel" and event.use_device:
        told["device"] = event.device_index
    return told
