"""A chart of benchmark results as SVG: each ratio to the peer, with its spread."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from fastdist.examples.svg import COLOURS, Axis, Canvas, number

_WIDTH, _LEFT, _RIGHT = 860, 372, 120
_TOP, _LINE, _HEADING = 84, 20, 30
_FASTER, _SLOWER = COLOURS[2], COLOURS[1]
# The range of the axis; ratios outside of this range are drawn at its edge.
_LOWEST, _HIGHEST = 0.1, 10.0


def chart(figures: Mapping[str, Any]) -> str:
    """Draw the figures of `--json`: a dot at the median ratio, and a line between the quartiles.

    Left of 1 fastdist is faster. The scale is logarithmic, so twice as fast and half as fast are at
    equal distances from 1. A vertical stroke marks a row's target.

    Raises  ValueError if no row has a peer
    """
    benches = [(bench["bench"], _compared(bench["rows"])) for bench in figures["results"]]
    benches = [(name, rows) for name, rows in benches if rows]
    if not benches:
        raise ValueError("chart: no row has a peer; is torch installed where this was measured?")
    ratios = [row["ratio"][key] for _, rows in benches for row in rows for key in ("low", "high")]
    height = _TOP + sum(_HEADING + _LINE * len(rows) for _, rows in benches) + 16
    canvas = Canvas(_WIDTH, height, "time of fastdist / time of its peer")
    canvas.write(16, 46, _machine(figures["machine"]))
    across = _scale(canvas, ratios, height)
    y = float(_TOP)
    for name, rows in benches:
        y += _HEADING
        canvas.write(16, y - 8, name, style="ink")
        for row in rows:
            _draw_row(canvas, across, row, y + _LINE / 2)
            y += _LINE
    return canvas.text()


def _compared(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [row for row in rows if row["ratio"] is not None]


def _machine(facts: Mapping[str, Any]) -> str:
    versions = facts["versions"]
    named = [
        f"{name} {versions[name]}" for name in ("fastdist", "torch", "numpy") if name in versions
    ]
    return ", ".join(
        [f"{facts['cpu']}, {facts['cores']} cores", f"Python {facts['python']}", *named]
    )


def _scale(canvas: Canvas, ratios: Sequence[float], height: int) -> Axis:
    low = max(_LOWEST, min(0.5, *ratios) * 0.9)
    high = min(_HIGHEST, max(1.25, *ratios) * 1.1)
    across = Axis(math.log(low), math.log(high), _LEFT, _WIDTH - _RIGHT)
    for tick in (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0):
        if low <= tick <= high:
            x = across.place(math.log(tick))
            canvas.line(x, _TOP - 6, x, height - 12, "axis" if tick == 1.0 else "grid")
            canvas.write(x, _TOP - 12, number(tick), anchor="middle")
    middle = across.place(0.0)
    canvas.write(middle - 24, _TOP - 12, "faster", anchor="end")
    canvas.write(middle + 24, _TOP - 12, "slower")
    return across


def _draw_row(canvas: Canvas, across: Axis, row: Mapping[str, Any], y: float) -> None:
    def place(ratio: float) -> float:
        # A ratio of 0, such as the CPU share of an idle worker, has no logarithm.
        return across.place(min(max(math.log(max(ratio, 1e-9)), across.low), across.high))

    ratio = row["ratio"]
    colour = _FASTER if ratio["median"] <= 1.0 else _SLOWER
    canvas.write(_LEFT - 12, y + 4, row["name"], anchor="end")
    spread = f"{ratio['median']:.2f} [{ratio['low']:.2f}-{ratio['high']:.2f}]"
    start, end = place(ratio["low"]), place(ratio["high"])
    canvas.rectangle(start, y - 2, max(end - start, 1.0), 4, colour=colour, tip=spread)
    if row["target"] is not None:
        x = place(row["target"])
        canvas.line(x, y - 7, x, y + 7, "axis")
    canvas.dot(place(ratio["median"]), y, colour)
    canvas.write(_WIDTH - _RIGHT + 8, y + 4, spread)
