"""A picture of the work of each worker over time, as SVG text."""

from __future__ import annotations

from collections.abc import Sequence

from fastdist.examples.stopwatch import Range
from fastdist.examples.svg import COLOURS, Axis, Canvas, number

_WIDTH = 960
_LEFT, _RIGHT, _TOP, _BOTTOM = 110, 24, 52, 52
_ROW, _BAR = 40, 26
_THINNEST = 0.4


def time_line(ranges: Sequence[Range], *, kinds: Sequence[str], title: str) -> str:
    """Draw a row for each worker, in the order of first occurrence in `ranges`; time starts at 0.

    Ranges that begin later are drawn on top, so a nested range stays visible.

    Raises  ValueError if there is nothing to draw, or if a range's kind is not in kinds
    """
    if not ranges:
        raise ValueError("time_line: no ranges")
    unknown = {entry.kind for entry in ranges} - set(kinds)
    if unknown:
        raise ValueError(f"time_line: kinds {sorted(unknown)!r} are not among {list(kinds)!r}")
    workers = list(dict.fromkeys(entry.worker for entry in ranges))
    origin = min(entry.start_s for entry in ranges)
    length_ms = (max(entry.end_s for entry in ranges) - origin) * 1e3
    canvas = Canvas(_WIDTH, _TOP + _ROW * len(workers) + _BOTTOM, title)
    across = Axis(0.0, length_ms, _LEFT, _WIDTH - _RIGHT)
    _draw_axis(canvas, across, bottom=_TOP + _ROW * len(workers))
    for row, worker in enumerate(workers):
        canvas.write(_LEFT - 12, _TOP + row * _ROW + 24, worker, style="ink", anchor="end")
    colours = dict(zip(kinds, COLOURS))
    for entry in sorted(ranges, key=lambda entry: entry.start_s):
        left = across.place((entry.start_s - origin) * 1e3)
        right = across.place((entry.end_s - origin) * 1e3)
        top = _TOP + workers.index(entry.worker) * _ROW + (_ROW - _BAR) / 2
        tip = f"{entry.worker}: {entry.kind}, {(entry.end_s - entry.start_s) * 1e3:.3f} ms"
        width = max(right - left, _THINNEST)
        canvas.rectangle(left, top, width, _BAR, colour=colours[entry.kind], tip=tip)
    canvas.legend([(kind, colours[kind]) for kind in kinds], y=26)
    return canvas.text()


def _draw_axis(canvas: Canvas, across: Axis, bottom: float) -> None:
    for tick in across.ticks(10):
        x = across.place(tick)
        canvas.line(x, _TOP, x, bottom, "grid")
        canvas.write(x, bottom + 18, number(tick), anchor="middle")
    canvas.line(_LEFT, bottom, canvas.width - _RIGHT, bottom, "axis")
    canvas.write((_LEFT + canvas.width - _RIGHT) / 2, bottom + 38, "ms", anchor="middle")
