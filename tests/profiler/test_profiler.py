"""The claim that a profile tells what ops, gradients and stretches of the user's own took."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

import fastdist as fd
from fastdist.autograd import profiler as old
from fastdist.core.time_ranges import TimeRange
from fastdist.graph.modes import modes
from fastdist.profiler import (
    ProfilerAction,
    ProfilerActivity,
    profile,
    record_function,
    schedule,
    supported_activities,
    tensorboard_trace_handler,
)
from fastdist.profiler.events import EventList, events_of


def work() -> fd.Tensor:
    x = fd.ones(3, 3, requires_grad=True)
    (x @ x).exp().sum().backward()
    assert x.grad is not None
    return x.grad


def counts(events: EventList) -> dict[str, int]:
    return {row.key: row.count for row in events.key_averages()}


def test_ops_gradients_and_stretches_are_counted() -> None:
    expected = work()
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as p:
        with record_function("step"):
            found = work()
        fd.ones(2).add_(1.0)
    told = counts(p.events())
    assert fd.equal(found, expected)
    assert told["step"] == told["aten::exp"] == told["aten::add_"] == 1
    assert told["ExpBackward0"] == told["MatmulBackward0"] == 1
    assert told["aten::matmul"] >= 3  # one forwards, two backwards


def test_nothing_is_left_behind_and_nothing_recorded_outside() -> None:
    before = (modes.special, modes.tracers)
    with profile() as p:
        pass
    work()
    assert (modes.special, modes.tracers) == before and p.events() == []


def test_an_error_ends_the_recording() -> None:
    before = (modes.special, modes.tracers)
    with pytest.raises(RuntimeError), profile() as p:
        fd.ones(2).exp() @ fd.ones(3)
    assert (modes.special, modes.tracers) == before
    assert counts(p.events())["aten::exp"] == 1


def test_record_function_decorates_functions_that_call_themselves() -> None:
    @record_function("down")
    def down(n: int) -> int:
        return n and down(n - 1)

    with profile() as p:
        down(2)
    (row,) = p.key_averages()
    assert (row.key, row.count) == ("down", 3)
    # What lies inside of its like is not counted twice.
    assert row.cpu_time_total == pytest.approx(p.events()[0].cpu_time_total)


def ranges() -> list[TimeRange]:
    """Of thread 1: a around b, c after them; of thread 2: one at the same time."""
    return [
        TimeRange("a", "user", 1_000, 9_000, 1, "main"),
        TimeRange("b", "op", 2_000, 5_000, 1, "main"),
        TimeRange("d", "op", 3_000, 4_000, 2, "other"),
        TimeRange("c", "op", 10_000, 2_010_000, 1, "main"),
    ]


def test_time_of_its_own_is_without_what_is_inside() -> None:
    events = events_of(ranges())
    assert [event.self_cpu_time_total for event in events] == [5.0, 3.0, 1.0, 2000.0]
    assert [event.cpu_parent and event.cpu_parent.name for event in events] == [
        None,
        "a",
        None,
        None,
    ]
    assert events[1].time_range == (1.0, 4.0) and events.total_average().count == 4


def test_a_table_has_a_row_for_each_name_the_largest_first() -> None:
    text = events_of(ranges()).key_averages().table(sort_by="self_cpu_time_total", row_limit=2)
    rows = [line.split() for line in text.splitlines()]
    assert rows[1][0] == "Name" and [row[0] for row in rows[3:5]] == ["c", "a"]
    assert rows[3][1:] == ["99.55%", "2.000ms", "99.55%", "2.000ms", "2.000ms", "1"]
    assert text.endswith("Self CPU time total: 2.009ms\n")
    with pytest.raises(ValueError, match="sort_by is 'foo'"):
        events_of(ranges()).table(sort_by="foo")


def test_a_trace_is_what_chrome_reads(tmp_path: Path) -> None:
    with profile() as p:
        work()
    p.export_chrome_trace(tmp_path / "trace.json.gz")
    with gzip.open(tmp_path / "trace.json.gz", "rt") as file:
        listed = json.load(file)["traceEvents"]
    one = next(event for event in listed if event["name"] == "aten::exp")
    assert one["ph"] == "X" and one["cat"] == "cpu_op" and one["dur"] > 0


@pytest.mark.parametrize(
    ("act", "expected"),
    [
        (schedule(wait=1, warmup=1, active=2), "NWRSNWRS"),
        (schedule(wait=1, warmup=1, active=1, repeat=1), "NWSNNNNN"),
        (schedule(wait=0, warmup=1, active=1, skip_first=3), "NNNWSWSW"),
        (schedule(wait=1, warmup=1, active=1, skip_first=1, skip_first_wait=1), "NWSNWSNW"),
    ],
)
def test_a_schedule_says_what_to_do_in_each_step(
    act: Callable[[int], ProfilerAction], expected: str
) -> None:
    letters = {"NONE": "N", "WARMUP": "W", "RECORD": "R", "RECORD_AND_SAVE": "S"}
    assert "".join(letters[act(step).name] for step in range(8)) == expected


def test_a_schedule_without_active_steps_is_refused() -> None:
    with pytest.raises(ValueError, match="Invalid profiler schedule arguments"):
        schedule(wait=1, warmup=1, active=0)
    with pytest.raises(ValueError, match="Step must be non-negative"):
        schedule(wait=1, warmup=1, active=1)(-1)


def test_steps_are_saved_when_their_schedule_says_so(tmp_path: Path) -> None:
    saved: list[dict[str, int]] = []

    def ready(p: profile) -> None:
        saved.append(counts(p.events()))
        tensorboard_trace_handler(str(tmp_path), "me")(p)

    act = schedule(wait=1, warmup=0, active=2, repeat=2)
    with profile(schedule=act, on_trace_ready=ready) as p:
        for _ in range(8):
            fd.ones(2).exp()
            p.step()
    assert [told["aten::exp"] for told in saved] == [2, 2]
    assert "ProfilerStep#1" in saved[0] and "ProfilerStep#5" in saved[1]
    assert len(list(tmp_path.glob("me.*.pt.trace.json"))) == 2


def test_the_older_name_records_one_block() -> None:
    with old.profile(use_cuda=False) as p, old.emit_nvtx():
        work()
    assert counts(p.function_events)["aten::exp"] == 1 and "aten::exp" in p.table()
    assert p.self_cpu_time_total == pytest.approx(p.total_average().self_cpu_time_total)
    with old.profile(enabled=False) as off:
        work()
    with pytest.raises(RuntimeError, match="Profiler didn't finish running"):
        off.key_averages()


def test_what_is_recorded_is_told() -> None:
    assert supported_activities() == {ProfilerActivity.CPU} and not fd.profiler.kineto_available()
    with pytest.raises(NotImplementedError, match="stacks are not recorded"):
        profile().export_stacks("path")
