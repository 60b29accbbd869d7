"""Writes events as an HTML page that draws the time line without a network or other files."""

from __future__ import annotations

import functools
import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from .function_event import FunctionEvent
from .lanes import lane_of, lanes_of

_PLACE: Final = "/*EVENTS*/"
_MOST_PLACES: Final = 8


def page_of(
    title: str,
    events: Sequence[FunctionEvent],
    workers: Mapping[int, str],
    arrows: Sequence[tuple[int, float, int, float]],
    critical: Collection[int],
) -> str:
    """Return the page. An arrow has two ends; each end is an event index followed by a time.

    Units   microseconds
    """
    lanes = lanes_of(events)
    rows = {lane: number for number, lane in enumerate(lanes)}
    places = {id(event): place for place, event in enumerate(events)}
    # Texts are often repeated, so the page stores each text once.
    texts: dict[str, int] = {}
    shown: list[list[Any]] = []
    for event in events:
        start, end = event.time_range
        more = [texts.setdefault(text, len(texts)) for text in _told_of(event)]
        cause = -1 if event.cause is None else places[id(event.cause)]
        is_critical = int(id(event) in critical)
        row = [rows[lane_of(event)], event.trace_name, event.category, start, end]
        shown.append([*row, is_critical, more, cause])
    told = {
        "title": title,
        "lanes": [
            [workers.get(lane.process, ""), lane.name + (" (calls)" if lane.waits else "")]
            for lane in lanes
        ],
        "events": shown,
        "texts": list(texts),
        "arrows": arrows,
    }
    # In JSON, "<" is replaced, because a name may contain "</script>", which would end the script.
    return _page().replace(_PLACE, json.dumps(told).replace("<", "\\u003c"))


def _told_of(event: FunctionEvent) -> list[str]:
    """Return the lines that the page shows for an event, without its name and times."""
    told = []
    if event.module_hierarchy:
        told.append(f"in {event.module_hierarchy}")
    if event.input_shapes:
        told.append(f"input {event.input_shapes}")
    if event.flops:
        told.append(f"{event.flops:,} FLOPs")
    for kind, taken in (("CPU", event.cpu_memory_usage), ("device", event.device_memory_usage)):
        if taken:
            told.append(f"{taken:+,} bytes of the {kind}")
    told += event.stack[:_MOST_PLACES]
    return told + (["..."] if len(event.stack) > _MOST_PLACES else [])


@functools.cache
def _page() -> str:
    return Path(__file__).with_name("time_line.html").read_text(encoding="utf-8")
