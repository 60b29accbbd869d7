"""The chart of a benchmark draws each ratio at its value."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from typing import Any

import pytest

from bench.chart import chart
from bench.harness import Amount, Row, Spread, as_json

SVG = "{http://www.w3.org/2000/svg}"
MACHINE: dict[str, Any] = {
    "cpu": "a CPU", "cores": 2, "python": "3.11", "versions": {"torch": "2.13.0"},
}  # fmt: skip


def measured(name: str, median: float | None, target: float | None = None) -> Row:
    spread = None if median is None else Spread(median, median * 0.9, median * 1.1)
    return Row(name, Spread(1, 1, 1), spread, spread, target, 3, Amount(1, "GB/s"))


def drawn(*rows: Row) -> ElementTree.Element:
    return ElementTree.fromstring(
        chart({"machine": MACHINE, "results": [as_json("ops", rows, {})]})
    )


def places(picture: ElementTree.Element, kind: str, key: str) -> list[float]:
    return [float(shape.attrib[key]) for shape in picture.iter(SVG + kind)]


def words(picture: ElementTree.Element) -> list[str]:
    return [text.text or "" for text in picture.iter(SVG + "text")]


def test_faster_lies_left_of_the_line_at_one_and_slower_right() -> None:
    picture = drawn(measured("fast", 0.5), measured("even", 1.0), measured("slow", 2.0))
    fast, even, slow = places(picture, "circle", "cx")
    assert even - fast == pytest.approx(slow - even, abs=0.02), "the scale is not logarithmic"
    assert fast < even < slow
    colours = {shape.attrib["fill"] for shape in picture.iter(SVG + "circle")}
    assert len(colours) == 2


def test_a_row_without_a_peer_is_left_out_and_figures_stand_beside_the_others() -> None:
    picture = drawn(measured("add", 0.5), measured("alone", None))
    assert "add" in words(picture) and "alone" not in words(picture)
    assert "0.50 [0.45-0.55]" in words(picture)
    assert "a CPU, 2 cores, Python 3.11, torch 2.13.0" in words(picture)


def test_what_is_out_of_bounds_is_drawn_at_the_edge() -> None:
    picture = drawn(measured("far", 1000.0), measured("near", 0.0001), measured("nothing", 0.0))
    far, near, nothing = places(picture, "circle", "cx")
    width = float(picture.attrib["width"])
    assert 0 < nothing <= near < far < width


def test_a_target_is_a_stroke_across_its_row() -> None:
    with_target = len(places(drawn(measured("add", 0.5, target=0.65)), "line", "x1"))
    assert with_target == len(places(drawn(measured("add", 0.5)), "line", "x1")) + 1


def test_figures_without_any_peer_are_refused() -> None:
    with pytest.raises(ValueError, match="no row has a peer"):
        drawn(measured("alone", None))
