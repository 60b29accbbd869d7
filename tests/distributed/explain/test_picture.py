"""An `Explanation` describes given pieces of a graph, and draws each at its exact time and row."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

from fastdist.distributed.explain.explanation import Explanation
from fastdist.distributed.explain.pieces import ROOT, Hop, Stretch

NAMES = {0: "w0", 1: "w1", 2: "w2"}
# The pass waits for worker 2. Worker 1 runs two stretches at a time; the second has not ended.
STRETCHES = [
    Stretch(0, ROOT, (1, 2), 5, 0, 0.0, 0.1),
    Stretch(1, 1, (3,), 50, 2, 0.2, 0.3),
    Stretch(1, 8, (), 1, 1, 0.25, None),
    Stretch(2, 2, (8,), 5, 1, 0.2, 0.8),
    Stretch(0, 3, (), 5, 1, 0.4, 0.5),
]
HOPS = [
    Hop(1, 0, 1, 0.1, 0.2),
    Hop(2, 0, 2, 0.1, 0.2),
    Hop(3, 1, 0, 0.3, 0.4),
    Hop(8, 2, 1, None, 0.25),
    Hop(9, 1, 2, 0.3, None, is_unused=True),  # to an unknown send
]
TIMED = Explanation(7, "over", NAMES, STRETCHES, HOPS, 0.8)
UNTIMED = Explanation(
    7,
    "not begun",
    NAMES,
    [one._replace(began=None, ended=None) for one in STRETCHES],
    [hop._replace(left=None, arrived=None) for hop in HOPS],
    None,
)

Shape = tuple[str, ...]


def drawn(found: Explanation, kind: str, *keys: str) -> list[Shape]:
    """Return the attributes `keys` of all SVG elements of a kind."""
    svg = ElementTree.fromstring(found.to_svg())
    shapes = svg.iter(f"{{http://www.w3.org/2000/svg}}{kind}")
    return [tuple(one.get(key, "") for key in keys) for one in shapes]


def bars(found: Explanation) -> list[Shape]:
    return drawn(found, "rect", "class", "x", "y", "width", "height")


def arrows(found: Explanation) -> list[Shape]:
    return drawn(found, "line", "class", "x1", "y1", "x2", "y2")


def marks(found: Explanation) -> list[Shape]:
    """Return the positions of the texts at the bottom of a picture."""
    return [(x, y) for look, x, y in drawn(found, "text", "class", "x", "y") if look == "faint"]


def test_stretches_are_bars_from_begin_to_end_and_those_that_overlap_stand_below_each_other() -> (
    None
):
    assert bars(TIMED) == [
        ("ground", "", "", "960", "220"),
        ("row", "0", "56", "960", "26"),
        ("row", "0", "92", "960", "52"),
        ("row", "0", "154", "960", "26"),
        ("late", "120.0", "60", "100.0", "18"),
        ("bar", "320.0", "96", "100.0", "18"),
        ("bar", "370.0", "122", "3.0", "18"),
        ("late", "320.0", "158", "600.0", "18"),
        ("bar", "520.0", "60", "100.0", "18"),
    ]


def test_hops_are_arrows_from_where_they_left_or_the_end_before_to_the_begin_after() -> None:
    assert arrows(TIMED) == [
        ("hop", "220.0", "69.0", "320.0", "105.0"),
        ("critical", "220.0", "69.0", "320.0", "167.0"),
        ("hop", "420.0", "105.0", "520.0", "69.0"),
        ("hop", "920.0", "167.0", "370.0", "131.0"),
    ]


def test_the_foot_of_a_picture_tells_the_time() -> None:
    assert marks(TIMED) == [(f"{120 + 200 * i}.0", "210") for i in range(5)]
    for i in range(5):
        assert f">{200 * i}.00 ms</text>" in TIMED.to_svg()
    assert marks(UNTIMED) == [("120", "184")] and "steps: no pass has run" in UNTIMED.to_svg()


def test_where_no_pass_has_run_each_stretch_is_a_step() -> None:
    assert bars(UNTIMED)[4:] == [
        ("late", "120.0", "60", "184.6", "18"),
        ("late", "427.7", "96", "184.6", "18"),
        ("bar", "735.4", "96", "184.6", "18"),
        ("bar", "427.7", "132", "184.6", "18"),
        ("late", "735.4", "60", "184.6", "18"),
    ]
    assert [look for look, *_ in arrows(UNTIMED)] == ["critical", "hop", "critical", "hop"]


def test_what_comes_from_roots_that_are_not_known_comes_from_the_left_edge() -> None:
    alone = [Stretch(1, 1, (2,), 3, 1, None, None), Stretch(0, 2, (), 3, 1, None, None)]
    hops = [Hop(1, 0, 1, None, None), Hop(2, 1, 0, None, None)]
    found = Explanation(7, "not begun", {0: "w0", 1: "w1"}, alone, hops, None)
    # The arrow begins a fifth of a step before the first stretch; a step is 800 / 1.6 wide.
    assert arrows(found) == [
        ("hop", "20.0", "69.0", "120.0", "105.0"),
        ("critical", "420.0", "105.0", "620.0", "69.0"),
    ]


def test_from_two_stretches_an_arrow_begins_at_the_later_one() -> None:
    both = [
        Stretch(0, 4, (1,), 3, 0, 0.0, 0.3),
        Stretch(0, 5, (1,), 3, 0, 0.1, 0.2),
        Stretch(1, 1, (), 3, 1, 0.4, 0.5),
    ]
    found = Explanation(7, "over", {0: "w0", 1: "w1"}, both, [Hop(1, 0, 1, None, 0.4)], 0.5)
    assert arrows(found) == [("hop", "440.0", "95.0", "760.0", "131.0")]


def test_the_text_tells_of_each_worker_and_of_the_critical_path() -> None:
    assert str(TIMED).splitlines() == [
        "context 0:7: backward pass over after 800.000 ms, over 3 workers and 5 messages",
        "  w0 (rank 0): begins the pass, 1 send, 2 receives, 1 leaf",
        "  w1 (rank 1): 2 sends, 2 receives, 2 leaves",
        "  w2 (rank 2): 1 send, 1 receive, 1 leaf",
        "critical path: 700.000 ms in Nodes, 100.000 ms between workers:",
        "  100.000 ms  w0: 5 Nodes from the roots to message 0:2",
        "  100.000 ms  w0 -> w2: gradients for message 0:2",
        "  600.000 ms  w2: 5 Nodes from message 0:2 to message 0:8 and 1 leaf",
    ]
    assert str(UNTIMED).splitlines()[4:] == [
        "critical path, by the number of Nodes:",
        "              w0: 5 Nodes from the roots to messages 0:1, 0:2",
        "              w0 -> w1: gradients for message 0:1",
        "              w1: 50 Nodes from message 0:1 to message 0:3 and 2 leaves",
        "              w1 -> w0: gradients for message 0:3",
        "              w0: 5 Nodes from message 0:3 to 1 leaf",
    ]


def test_the_first_message_of_all_has_the_number_0_and_is_not_the_roots() -> None:
    said = TIMED.describe(Stretch(1, 0, (), 1, 0, 0.5, 0.6))
    assert said.endswith("w1: 1 Node from message 0:0 to nothing")


def test_of_many_messages_the_first_four_are_named() -> None:
    said = [TIMED.describe(Stretch(1, 9, tuple(range(n)), 1, 0, 0.5, 0.6)) for n in (0, 4, 5)]
    assert [line.partition(" to ")[2] for line in said] == [
        "nothing",
        "messages 0:0, 0:1, 0:2, 0:3",
        "messages 0:0, 0:1, 0:2, 0:3 and 1 more",
    ]


def test_graphviz_is_told_each_stretch_once_and_each_hop_whose_send_is_known() -> None:
    dot = TIMED.to_dot()
    assert [line for line in dot.splitlines() if "->" in line and "Node" not in line] == [
        '  w0_roots -> w1_1 [label="0:1"];',
        '  w0_roots -> w2_2 [label="0:2", penwidth=3];',
        '  w1_1 -> w0_3 [label="0:3"];',
        '  w2_2 -> w1_8 [label="0:8"];',
    ]
    assert '    w1_8 [label="w1: 1 Node from message 0:8 to 1 leaf"];' in dot
    bold = [line.split()[0] for line in dot.splitlines() if "Node" in line and "penwidth=3" in line]
    assert bold == ["w0_roots", "w2_2"]


def test_the_critical_path_goes_through_what_began_last_before_the_gradients_left() -> None:
    last_before = Stretch(0, 5, (1,), 3, 0, 0.1, 0.3)
    stretches = [
        Stretch(0, 4, (1,), 3, 0, 0.0, 0.3),
        last_before,
        Stretch(0, 6, (1,), 3, 0, 0.28, 0.3),  # begins after the gradients were sent
        Stretch(0, 7, (2,), 3, 0, 0.2, 0.3),  # belongs to another message
        Stretch(1, 1, (), 3, 1, 0.4, 0.5),
    ]
    hop = Hop(1, 0, 1, 0.25, 0.4)
    found = Explanation(7, "over", NAMES, stretches, [hop], 0.5)
    assert found.critical_path == (last_before._replace(ended=0.25), hop, stretches[-1])
