"""Draws the graph of a context as SVG, as an HTML page, or in Graphviz's DOT language."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape

from ..rpc.message.ids import id_text
from .pieces import ROOT, Hop, Piece, Stretch, steps

_WIDTH, _LEFT, _TOP, _LANE, _BAR = 960, 120, 56, 26, 18
_STYLE = """
  .ground { fill: #ffffff } .ink { fill: #1f2328 } .faint { fill: #59636e }
  .row { fill: #f6f8fa } .bar { fill: #a8b0b9 } .late { fill: #d55e00 }
  .hop { stroke: #59636e; stroke-width: 1 } .critical { stroke: #d55e00; stroke-width: 2.5 }
  text { font: 12px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif }
  .title { font-size: 15px; font-weight: 600 }
  @media (prefers-color-scheme: dark) {
    .ground { fill: #0d1117 } .ink { fill: #e6edf3 } .faint { fill: #9198a1 }
    .row { fill: #161b22 } .bar { fill: #59636e } .hop { stroke: #9198a1 }
  }
"""


class Drawing:
    """Draws the pieces of a graph: one row per worker, with the time from left to right."""

    def __init__(
        self,
        title: str,
        names: dict[int, str],
        stretches: Sequence[Stretch],
        hops: Sequence[Hop],
        critical: Sequence[Piece],
        *,
        describe: Callable[[Piece], str],
    ) -> None:
        self._title = title
        self._names = names
        self._stretches = stretches
        self._hops = hops
        self._describe = describe
        self._critical_starts = {(p.worker, p.start) for p in critical if isinstance(p, Stretch)}
        self._critical_hops = {p.message_id for p in critical if isinstance(p, Hop)}
        self._is_timed = any(one.began is not None for one in stretches)
        self._spans = self._placed()
        self._longest = max((ended for _, ended in self._spans.values()), default=0.0) or 1.0

    def svg(self) -> str:
        """Return a self-contained SVG picture."""
        lanes, height = self._lanes()
        shapes = [f'<rect width="{_WIDTH}" height="{height}" class="ground"/>']
        shapes.append(f'<text x="16" y="26" class="ink title">{escape(self._title)}</text>')
        for worker, (top, count, _) in lanes.items():
            shapes.append(
                f'<rect x="0" y="{top}" width="{_WIDTH}" height="{count * _LANE}" class="row"/>'
                f'<text x="16" y="{top + 18}" class="ink">{escape(self._names[worker])}</text>'
            )
        places = {
            key: (top + lane * _LANE) for top, _, of in lanes.values() for key, lane in of.items()
        }
        tops = {worker: top for worker, (top, _, _) in lanes.items()}
        shapes += [self._bar(one, places) for one in self._stretches if self._key(one) in places]
        shapes += [line for hop in self._hops if (line := self._arrow(hop, places, tops))]
        shapes += self._axis(height)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
            f'viewBox="0 0 {_WIDTH} {height}" role="img">\n<style>{_STYLE}</style>\n'
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
            'markerHeight="7" orient="auto"><path d="M0 0 L8 4 L0 8 z" class="faint"/></marker>'
            f"</defs>\n{chr(10).join(shapes)}\n</svg>\n"
        )

    def html(self, text: str) -> str:
        """Return an HTML page with the picture and the text."""
        return (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
            f"<title>{escape(self._title)}</title>"
            '<meta name="color-scheme" content="light dark"></head>\n'
            f"<body>\n{self.svg()}<pre>{escape(text)}</pre>\n</body></html>\n"
        )

    def dot(self) -> str:
        """Return the graph in the DOT language, with one box per worker."""
        lines = ["digraph pass {", "  rankdir=LR;", "  node [shape=box];"]
        for worker, name in self._names.items():
            lines += [f"  subgraph cluster_{worker} {{", f"    label={_quoted(name)};"]
            for one in self._stretches:
                if one.worker == worker:
                    bold = ", penwidth=3" if self._key(one) in self._critical_starts else ""
                    label = _quoted(self._describe(one).strip())
                    lines.append(f"    {_name(*self._key(one))} [label={label}{bold}];")
            lines.append("  }")
        known = {self._key(one) for one in self._stretches}
        for hop in self._hops:
            bold = ", penwidth=3" if hop.message_id in self._critical_hops else ""
            to = (hop.to_worker, hop.message_id)
            above = [
                _name(*self._key(one))
                for one in self._stretches
                if one.worker == hop.from_worker and hop.message_id in one.ends
            ]
            if to in known:
                label = f"[label={_quoted(id_text(hop.message_id))}{bold}]"
                unknown = _name(hop.from_worker, ROOT)
                lines += [f"  {one} -> {_name(*to)} {label};" for one in above or [unknown]]
        return "\n".join([*lines, "}", ""])

    def _key(self, one: Stretch) -> tuple[int, int]:
        return one.worker, one.start

    def _placed(self) -> dict[tuple[int, int], tuple[float, float]]:
        """Return the start and the end of each stretch, in seconds, or in steps without times."""
        if not self._is_timed:
            return {
                key: (step, step + 0.6) for key, step in steps(self._stretches, self._hops).items()
            }
        return {
            self._key(one): (one.began, one.began if one.ended is None else one.ended)
            for one in self._stretches
            if one.began is not None
        }

    def _lanes(self) -> tuple[dict[int, tuple[int, int, dict[tuple[int, int], int]]], int]:
        """Return, for each worker, the top of its row, the number of lanes in the row, and the lane
        of each stretch; and the height of the picture.

        Stretches that overlap in time are drawn in different lanes, one below the other.
        """
        found: dict[int, tuple[int, int, dict[tuple[int, int], int]]] = {}
        top, gap = _TOP, self._longest / 200
        for worker in self._names:
            ends: list[float] = []
            lanes: dict[tuple[int, int], int] = {}
            own = [key for key in self._spans if key[0] == worker]
            for key in sorted(own, key=lambda one: self._spans[one]):
                began, ended = self._spans[key]
                lane = next((i for i, end in enumerate(ends) if end + gap <= began), len(ends))
                ends[lane : lane + 1] = [ended]
                lanes[key] = lane
            found[worker] = (top, max(len(ends), 1), lanes)
            top += max(len(ends), 1) * _LANE + 10
        return found, top + 30

    def _x(self, at: float) -> float:
        return _LEFT + max(at, -0.2) / self._longest * (_WIDTH - _LEFT - 40)

    def _bar(self, one: Stretch, places: dict[tuple[int, int], int]) -> str:
        key = self._key(one)
        (began, ended), y = self._spans[key], places[key] + 4
        x, width = self._x(began), max(self._x(ended) - self._x(began), 3.0)
        look = "late" if key in self._critical_starts else "bar"
        tip = escape(self._describe(one).strip())
        return (
            f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{_BAR}" class="{look}">'
            f"<title>{tip}</title></rect>"
        )

    def _arrow(
        self, hop: Hop, places: dict[tuple[int, int], int], tops: dict[int, int]
    ) -> str | None:
        to = (hop.to_worker, hop.message_id)
        above = [
            self._key(one)
            for one in self._stretches
            if one.worker == hop.from_worker
            and hop.message_id in one.ends
            and self._key(one) in places
        ]
        if to not in places:
            return None
        if above:
            start = max(above, key=lambda key: self._spans[key][0])
            left, y = self._spans[start][1], places[start]
        else:
            # The hop comes from roots that have been freed, so no stretch leads to it.
            left, y = -0.5, tops[hop.from_worker]
        if self._is_timed and hop.left is not None:
            left = hop.left
        look = "critical" if hop.message_id in self._critical_hops else "hop"
        tip = escape(self._describe(hop).strip())
        middle = 4 + _BAR / 2
        return (
            f'<line x1="{self._x(left):.1f}" y1="{y + middle}" '
            f'x2="{self._x(self._spans[to][0]):.1f}" y2="{places[to] + middle}" class="{look}" '
            f'marker-end="url(#tip)"><title>{tip}</title></line>'
        )

    def _axis(self, height: int) -> list[str]:
        if not self._is_timed:
            return [
                f'<text x="{_LEFT}" y="{height - 10}" class="faint">steps: no pass has run</text>'
            ]
        marks = [self._longest * i / 4 for i in range(5)]
        return [
            f'<text x="{self._x(at):.1f}" y="{height - 10}" class="faint" text-anchor="middle">'
            f"{at * 1e3:.2f} ms</text>"
            for at in marks
        ]


def _name(worker: int, start: int) -> str:
    return f"w{worker}_{'roots' if start == ROOT else start}"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
