"""The parts of SVG that a plot needs: shapes, text, axes; for light and dark pages."""

from __future__ import annotations

import math
from collections.abc import Sequence

# These colours (Okabe and Ito) differ in lightness as well as in hue. They are visible on white and
# on near black.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#a8b0b9", "#cc79a7", "#e69f00")
_STYLE = """
  .ground { fill: #ffffff } .ink { fill: #1f2328 } .faint { fill: #59636e }
  .grid { stroke: #d1d9e0; stroke-width: 1 } .axis { stroke: #59636e; stroke-width: 1 }
  text { font: 12px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif }
  .title { font-size: 16px; font-weight: 600 }
  @media (prefers-color-scheme: dark) {
    .ground { fill: #0d1117 } .ink { fill: #e6edf3 } .faint { fill: #9198a1 }
    .grid { stroke: #30363d } .axis { stroke: #9198a1 }
  }
"""


# Assumed widths of a letter, in pixels. Text cannot be measured here, and letters of most fonts are
# narrower.
_LETTER, _TITLE_LETTER = 7.0, 9.0


def fits_beside_title(title: str, names: Sequence[str], width: int) -> bool:
    """Return whether a legend fits to the right of a title, on a canvas of the given width."""
    legend = sum(_LETTER * len(name) + 32 for name in names)
    return 16 + _TITLE_LETTER * len(title) + 16 + legend <= width


class Canvas:
    """Collects shapes; `text` returns the whole picture."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self.width = width
        self.height = height
        self._title = title
        self._shapes: list[str] = []
        self.rectangle(0, 0, width, height, style="ground")
        self.write(16, 26, title, style="ink title")

    def rectangle(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        *,
        style: str = "",
        colour: str = "",
        tip: str = "",
    ) -> None:
        """Draw a filled rectangle; `tip` appears under the mouse pointer."""
        place = f'x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}"'
        look = f'class="{style}"' if style else f'fill="{colour}"'
        inside = f"<title>{_escaped(tip)}</title>" if tip else ""
        self._shapes.append(f"<rect {place} {look}>{inside}</rect>")

    def line(self, x1: float, y1: float, x2: float, y2: float, style: str) -> None:
        """Draw a straight line."""
        place = f'x1="{x1:.2f}" y1="{y1:.2f}" x2="{x2:.2f}" y2="{y2:.2f}"'
        self._shapes.append(f'<line {place} class="{style}"/>')

    def curve(self, points: Sequence[tuple[float, float]], colour: str, name: str) -> None:
        """Draw a line through points."""
        # A thick line through many points would fill the space between the points.
        width = 2 if len(points) <= 300 else 1
        joined = " ".join(f"{x:.2f},{y:.2f}" for x, y in points)
        self._shapes.append(
            f'<polyline points="{joined}" fill="none" stroke="{colour}" stroke-width="{width}" '
            f'stroke-linejoin="round"><title>{_escaped(name)}</title></polyline>'
        )

    def dot(self, x: float, y: float, colour: str) -> None:
        """Draw one point."""
        self._shapes.append(f'<circle cx="{x:.2f}" cy="{y:.2f}" r="3" fill="{colour}"/>')

    def squares(self, places: Sequence[tuple[float, float]], side: float, colour: str) -> None:
        """Draw filled squares of one colour as one shape; places are their upper left corners."""
        path = "".join(f"M{x:g} {y:g}h{side:g}v{side:g}h-{side:g}z" for x, y in places)
        self._shapes.append(f'<path d="{path}" fill="{colour}"/>')

    def write(
        self, x: float, y: float, words: str, *, style: str = "faint", anchor: str = "start"
    ) -> None:
        """Write text; y is its baseline, anchor is "start", "middle" or "end"."""
        place = f'x="{x:.2f}" y="{y:.2f}" text-anchor="{anchor}" class="{style}"'
        self._shapes.append(f"<text {place}>{_escaped(words)}</text>")

    def write_upwards(self, x: float, y: float, words: str) -> None:
        """Write text rotated by 90 degrees, for a vertical axis."""
        place = f'transform="translate({x:.2f} {y:.2f}) rotate(-90)" text-anchor="middle"'
        self._shapes.append(f'<text {place} class="faint">{_escaped(words)}</text>')

    def legend(self, entries: Sequence[tuple[str, str]], y: float) -> None:
        """Write (name, colour) pairs in a row that is aligned to the right."""
        x = float(self.width - 16)
        for name, colour in reversed(entries):
            x -= _LETTER * len(name)
            self.write(x, y, name, style="ink")
            self.rectangle(x - 18, y - 9, 12, 10, colour=colour)
            x -= 32

    def text(self) -> str:
        """Return the picture as an SVG document."""
        width, height = self.width, self.height
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" role="img" aria-label="{_escaped(self._title)}">'
        )
        return "\n".join([head, f"<style>{_STYLE}</style>", *self._shapes, "</svg>", ""])


class Axis:
    """Maps the numbers from low to high to positions, and finds round numbers in that range."""

    def __init__(self, low: float, high: float, start: float, end: float) -> None:
        if not high > low:
            low, high = low - 0.5, high + 0.5
        self.low = low
        self.high = high
        self._start = start
        self._scale = (end - start) / (high - low)

    def place(self, value: float) -> float:
        """Return the position of a value."""
        return self._start + (value - self.low) * self._scale

    def ticks(self, wanted: int = 6) -> list[float]:
        """Return about `wanted` round numbers, in steps of 1, 2 or 5 times a power of ten."""
        rough = (self.high - self.low) / wanted
        power = 10.0 ** math.floor(math.log10(rough))
        step = power * next(m for m in (1, 2, 5, 10) if m * power >= rough * 0.999)
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [number * step for number in range(first, last + 1)]


def number(value: float) -> str:
    """Return a number as text for an axis."""
    return f"{value:.4g}" if abs(value) > 1e-12 else "0"


def _escaped(text: str) -> str:
    # Imported when something is drawn, because `html` loads a table of 2,231 named characters.
    from html import escape

    return escape(text)
