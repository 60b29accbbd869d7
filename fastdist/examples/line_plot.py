"""A picture of curves or clouds of points, as SVG text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from fastdist.examples.svg import COLOURS, Axis, Canvas, fits_beside_title, number

_WIDTH, _HEIGHT = 720, 420
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 24, 48, 52
_LEGEND = 22
_DOTS_UP_TO = 40


class Curve(NamedTuple):
    """A named curve: (x, y) points, joined by lines in their order if `is_joined` is true."""

    name: str
    points: Sequence[tuple[float, float]]
    is_joined: bool = True


def line_plot(
    curves: Sequence[Curve], *, title: str, x_label: str, y_label: str, has_equal_axes: bool = False
) -> str:
    """Draw curves with common axes; y starts at 0 if no value is negative.

    With has_equal_axes, x and y have the same scale, so that a circle is round.

    Note    points that are not finite are not drawn, so that a diverged run still has a picture
    Raises  ValueError if no point is finite
    """
    kept = [curve._replace(points=_finite(curve.points)) for curve in curves]
    everything = [point for curve in kept for point in curve.points]
    if not everything:
        raise ValueError(f"line_plot: no finite point in {[curve.name for curve in curves]!r}")
    xs, ys = [x for x, _ in everything], [y for _, y in everything]
    low, high = min(0.0, min(ys) * 1.04), max(ys) * 1.04 or 1.0
    first, last = min(xs), max(xs)
    # A legend that would overlap the title gets a separate row above the plot.
    names = [curve.name for curve in kept[: len(COLOURS)]]
    down = 0 if fits_beside_title(title, names, _WIDTH) else _LEGEND
    if has_equal_axes:
        wide, tall = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
        more = max((high - low) * wide / tall - (last - first), 0.0) / 2
        first, last = first - more, last + more
        more = max((last - first) * tall / wide - (high - low), 0.0) / 2
        low, high = low - more, high + more
    across = Axis(first, last, _LEFT, _WIDTH - _RIGHT)
    up = Axis(low, high, _HEIGHT + down - _BOTTOM, _TOP + down)
    canvas = Canvas(_WIDTH, _HEIGHT + down, title)
    _draw_axes(canvas, across, up, x_label, y_label, down)
    for curve, colour in zip(kept, COLOURS):
        places = [(across.place(x), up.place(y)) for x, y in curve.points]
        if curve.is_joined:
            canvas.curve(places, colour, curve.name)
        if len(places) <= _DOTS_UP_TO or not curve.is_joined:
            for x, y in places:
                canvas.dot(x, y, colour)
    canvas.legend([(curve.name, colour) for curve, colour in zip(kept, COLOURS)], y=26 + down)
    return canvas.text()


def _finite(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    return [(x, y) for x, y in points if math.isfinite(x) and math.isfinite(y)]


def _draw_axes(
    canvas: Canvas, across: Axis, up: Axis, x_label: str, y_label: str, down: int
) -> None:
    bottom, right = canvas.height - _BOTTOM, _WIDTH - _RIGHT
    for tick in up.ticks():
        y = up.place(tick)
        canvas.line(_LEFT, y, right, y, "grid")
        canvas.write(_LEFT - 8, y + 4, number(tick), anchor="end")
    for tick in across.ticks(10):
        x = across.place(tick)
        canvas.line(x, bottom, x, bottom + 5, "axis")
        canvas.write(x, bottom + 19, number(tick), anchor="middle")
    canvas.line(_LEFT, bottom, right, bottom, "axis")
    canvas.write((_LEFT + right) / 2, canvas.height - 12, x_label, anchor="middle")
    canvas.write_upwards(18, (_TOP + down + bottom) / 2, y_label)
