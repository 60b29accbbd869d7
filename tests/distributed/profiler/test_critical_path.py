"""The critical path of a pass is the chain of pieces for which the later pieces waited."""

from __future__ import annotations

from fastdist.distributed.explain.clocks import Clock, Sighting
from fastdist.distributed.profiler.merged import TimeLine, merge
from fastdist.instrumentation.time_ranges import TimeRange

CLOCK = Clock(Sighting(0, 0, 0), Sighting(0, 0, 0))


def merged(*ranges: TimeRange) -> TimeLine:
    by_worker: dict[int, list[TimeRange]] = {}
    for known in ranges:
        by_worker.setdefault(known.node_id, []).append(known)
    return merge(by_worker, dict.fromkeys(by_worker, CLOCK), {})


def at(name: str, start: int, stop: int, node: int, kind: str = "backward", flow: int = 0):  # type: ignore[no-untyped-def]
    return TimeRange(name, kind, start, stop, 1 + node, "t", node, flow_id=flow)


def path_of(line: TimeLine) -> list[str]:
    return [event.name for event in line.critical_path()]


def test_what_was_waited_for_is_on_the_path_and_nothing_else() -> None:
    line = merged(
        at("op before", 0, 50, 0, "op"),
        at("pass", 100, 1000, 0, "pass"),
        at("first", 110, 200, 0),
        at("sent", 200, 200, 0, "sent", 7),
        at("aside", 210, 400, 0),  # nothing waits for this stretch
        at("came", 300, 900, 1, "came", 7),
        at("there", 310, 800, 1),
        at("sent back", 800, 800, 1, "sent", 8),
        at("came back", 850, 1100, 0, "came", 8),  # the reply to this message follows the pass
        at("last", 860, 950, 0),
        at("after", 1200, 1300, 0),
    )
    expected = ["pass", "first", "sent", "came", "there", "sent back", "came back", "last"]
    assert path_of(line) == expected
    assert [(a.sender.name, a.receiver.name) for a in line.arrows] == [
        ("sent", "came"),
        ("sent back", "came back"),
    ]


def test_a_worker_that_works_longer_than_gradients_travel_is_on_the_path_itself() -> None:
    line = merged(
        at("pass", 100, 1000, 0, "pass"),
        at("first", 110, 200, 0),
        at("sent", 200, 200, 0, "sent", 7),
        at("long", 210, 900, 0),
        at("came", 300, 400, 1, "came", 7),
        at("sent back", 400, 400, 1, "sent", 8),
        at("came back", 450, 460, 0, "came", 8),
        at("last", 900, 950, 0),
    )
    assert path_of(line) == ["pass", "first", "sent", "long", "last"]


def test_a_pass_without_anything_in_it_is_its_own_path() -> None:
    assert path_of(merged(at("pass", 100, 200, 0, "pass"))) == ["pass"]
    assert path_of(merged(at("alone", 100, 200, 0))) == []
