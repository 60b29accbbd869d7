"""The two pictures: valid XML, points in the right places, and round numbers on the axes."""

from __future__ import annotations

import math
from xml.etree import ElementTree

import pytest

from fastdist.examples.line_plot import Curve, line_plot
from fastdist.examples.stopwatch import Range
from fastdist.examples.svg import Axis
from fastdist.examples.time_line import time_line

_SVG = "{http://www.w3.org/2000/svg}"
_KINDS = ("forward", "backward")


def _plot(*curves: Curve) -> ElementTree.Element:
    text = line_plot(curves, title="Loss & <more>", x_label="step", y_label="loss")
    return ElementTree.fromstring(text)


def _points(picture: ElementTree.Element) -> list[list[tuple[float, float]]]:
    found = []
    for line in picture.iter(f"{_SVG}polyline"):
        pairs = [pair.split(",") for pair in line.attrib["points"].split()]
        found.append([(float(x), float(y)) for x, y in pairs])
    return found


def test_a_plot_shows_every_point_where_it_belongs() -> None:
    ((first, middle, last),) = _points(_plot(Curve("a", [(0.0, 4.0), (5.0, 2.0), (10.0, 0.0)])))
    assert first[0] < middle[0] < last[0]
    assert middle[0] == pytest.approx((first[0] + last[0]) / 2, abs=0.01)
    assert middle[1] == pytest.approx((first[1] + last[1]) / 2, abs=0.01)
    # The y of an SVG grows downwards, so the point with the larger value has the smaller y.
    assert first[1] < last[1]


def test_a_plot_names_its_curves_and_axes() -> None:
    picture = _plot(Curve("training", [(0.0, 1.0), (1.0, 0.5)]), Curve("test", [(0.0, 2.0)]))
    words = [text.text for text in picture.iter(f"{_SVG}text")]
    assert {"Loss & <more>", "training", "test", "step", "loss"} <= set(words)


def test_legend_that_would_reach_over_the_title_has_a_row_of_its_own() -> None:
    few = _plot(Curve("a", [(0.0, 1.0)]))
    many = _plot(*(Curve(f"learnt, t {i}", [(0.0, 1.0)]) for i in range(6)))
    for picture, is_below in ((few, False), (many, True)):
        texts = {text.text: text.attrib for text in picture.iter(f"{_SVG}text")}
        legend = [at for words, at in texts.items() if words in ("a", "learnt, t 0")]
        (place,) = legend
        assert (float(place["y"]) > float(texts["Loss & <more>"]["y"])) == is_below
        assert float(place["x"]) > 16


@pytest.mark.parametrize("stretched", [(1.0, 4.0), (4.0, 1.0)])
def test_a_circle_is_round_on_equal_axes(stretched: tuple[float, float]) -> None:
    width, height = stretched
    outside = Curve("corners", [(-width, -height), (width, height)])
    circle = [(math.cos(t / 9), math.sin(t / 9)) for t in range(57)]
    curves = [Curve("circle", circle), outside]
    text = line_plot(curves, title="", x_label="", y_label="", has_equal_axes=True)
    (drawn, _) = _points(ElementTree.fromstring(text))
    across, up = ([point[i] for point in drawn] for i in (0, 1))
    assert max(across) - min(across) == pytest.approx(max(up) - min(up), rel=0.01)


def test_a_plot_stays_inside_its_frame() -> None:
    picture = _plot(Curve("a", [(float(i), math.sin(i)) for i in range(100)]))
    for x, y in _points(picture)[0]:
        assert 0 <= x <= float(picture.attrib["width"])
        assert 0 <= y <= float(picture.attrib["height"])


def test_a_plot_leaves_out_what_is_not_finite() -> None:
    curve = Curve("a", [(0.0, 1.0), (1.0, math.nan), (2.0, math.inf), (3.0, 2.0)])
    assert len(_points(_plot(curve))[0]) == 2


@pytest.mark.parametrize("points", [[(1.0, 5.0)], [(0.0, 3.0), (1.0, 3.0)], [(0.0, 0.0)]])
def test_a_plot_of_a_single_value_is_drawn(points: list[tuple[float, float]]) -> None:
    assert len(_points(_plot(Curve("a", points)))[0]) == len(points)


def test_a_plot_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no finite point in \['a'\]"):
        _plot(Curve("a", [(0.0, math.nan)]))


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0.0, 10.0, [0, 2, 4, 6, 8, 10]),
        (0.0, 2.4, [0, 0.5, 1, 1.5, 2]),
        (-1.0, 1.0, [-1, -0.5, 0, 0.5, 1]),
        (0.0, 1797.0, [0, 500, 1000, 1500]),
    ],
)
def test_ticks_are_round_numbers(low: float, high: float, ticks: list[float]) -> None:
    assert Axis(low, high, 0.0, 100.0).ticks() == pytest.approx(ticks)


def test_a_time_line_draws_each_range_to_scale() -> None:
    ranges = [
        Range("trainer", "forward", 10.0, 10.1),
        Range("layers", "forward", 10.02, 10.08),
        Range("trainer", "backward", 10.1, 10.2),
    ]
    picture = ElementTree.fromstring(time_line(ranges, kinds=_KINDS, title="Time"))
    bars = {bar[0].text: bar.attrib for bar in picture.iter(f"{_SVG}rect") if len(bar)}
    long = bars["trainer: forward, 100.000 ms"]
    short = bars["layers: forward, 60.000 ms"]
    assert float(short["width"]) == pytest.approx(0.6 * float(long["width"]), abs=0.02)
    assert float(short["y"]) > float(long["y"])
    after = bars["trainer: backward, 100.000 ms"]
    end_of_long = float(long["x"]) + float(long["width"])
    assert float(after["x"]) == pytest.approx(end_of_long, abs=0.02)
    assert after["fill"] != long["fill"]


def test_a_time_line_refuses_what_it_has_no_colour_for() -> None:
    with pytest.raises(ValueError, match=r"kinds \['sleeping'\] are not among"):
        time_line([Range("a", "sleeping", 0.0, 1.0)], kinds=_KINDS, title="Time")
    with pytest.raises(ValueError, match="no ranges"):
        time_line([], kinds=_KINDS, title="Time")
