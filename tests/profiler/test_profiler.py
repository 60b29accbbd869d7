"""A profile has the times of ops, gradients and user ranges."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

import fastdist as fd
from fastdist.autograd import profiler as old
from fastdist.graph import recordings
from fastdist.graph.modes import modes
from fastdist.instrumentation.time_ranges import TimeRange
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
    assert told["ExpBackward0"] == told["MmBackward0"] == 1
    assert told["aten::mm"] >= 3  # one in the forward pass, two in the backward pass


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
    # A range inside another range with the same name is not counted twice.
    assert row.cpu_time_total == pytest.approx(p.events()[0].cpu_time_total)


def ranges() -> list[TimeRange]:
    """Return ranges of thread 1, where a contains b and c follows, and of thread 2."""
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


def test_the_total_of_averages_is_that_of_their_events() -> None:
    events = events_of([known._replace(name="op", flops=2) for known in ranges()])
    for total in (events.total_average(), events.key_averages().total_average()):
        assert (total.key, total.count, total.flops) == ("Total", 4, 8)
        assert total.self_cpu_time_total == 2009.0


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
    steps: list[list[str]] = []

    def ready(p: profile) -> None:
        saved.append(counts(p.events()))
        steps.append([e.trace_name for e in p.events() if "Step" in e.name])
        tensorboard_trace_handler(str(tmp_path), "me")(p)

    act = schedule(wait=1, warmup=0, active=2, repeat=2)
    with profile(schedule=act, on_trace_ready=ready) as p:
        for _ in range(8):
            fd.ones(2).exp()
            p.step()
    assert [told["aten::exp"] for told in saved] == [2, 2]
    # In a table, all steps are summed in one row.
    assert [told["ProfilerStep*"] for told in saved] == [2, 2]
    assert steps == [[f"ProfilerStep#{n}" for n in found] for found in ((1, 2), (4, 5))]
    assert len(list(tmp_path.glob("me.*.pt.trace.json"))) == 2


def test_a_warm_up_lets_ops_go_the_way_they_are_recorded_and_keeps_nothing() -> None:
    told: list[tuple[int, int]] = []

    def ready(p: profile) -> None:
        assert [event.name for event in p.events()] == ["ProfilerStep*", "aten::ones", "aten::exp"]

    act = schedule(wait=1, warmup=2, active=1, repeat=1)
    before = modes.special
    with profile(schedule=act, on_trace_ready=ready) as p:
        for step in range(6):
            told.append((step, modes.special - before))
            fd.ones(2).exp()
            p.step()
    assert told == [(0, 0), (1, 1), (2, 1), (3, 1), (4, 0), (5, 0)]
    with profile(schedule=act) as p:
        p.step()
        assert modes.special == before + 1
    assert modes.special == before and p.events() == []


def test_the_older_name_records_one_block() -> None:
    with old.profile(use_cuda=False) as p, old.emit_nvtx(enabled=False):
        work()
    assert counts(p.function_events)["aten::exp"] == 1 and "aten::exp" in p.table()
    assert p.self_cpu_time_total == pytest.approx(p.total_average().self_cpu_time_total)
    with old.profile(enabled=False) as off:
        work()
    with pytest.raises(RuntimeError, match="Profiler didn't finish running"):
        off.key_averages()


def test_what_is_recorded_is_told() -> None:
    assert supported_activities() == {ProfilerActivity.CPU} and not fd.profiler.kineto_available()
    with pytest.raises(NotImplementedError, match="memory is only reported op by op"):
        profile().export_memory_timeline("path")


def test_shapes_are_recorded_where_they_are_asked_for_and_group_averages() -> None:
    x, y = fd.ones(2, 3), fd.ones(3, 4)
    turned = y.T
    with profile(record_shapes=True) as p:
        x @ y
        turned @ y
        x.add_(1.0)
    shapes = [event.input_shapes for event in p.events()]
    assert shapes == [[[2, 3], [3, 4]], [[4, 3], [3, 4]], [[2, 3], []]]
    averages = p.key_averages(group_by_input_shape=True)
    assert [row.input_shapes for row in averages] == shapes
    # In PyTorch, this keyword ends in `shapes` for an event list, and in `shape` for a profile.
    again = p.events().key_averages(group_by_input_shapes=True)
    assert [row.input_shapes for row in again] == shapes
    assert "[[2, 3], [3, 4]]" in averages.table()
    with profile() as p:
        x @ y
    assert [event.input_shapes for event in p.events()] == [[]]


def test_flops_are_counted_where_they_are_asked_for() -> None:
    x, y, image = fd.ones(4, 3), fd.ones(3, 5), fd.ones(2, 3, 8, 8)
    kernels = fd.ones(6, 3, 3, 3)
    with profile(with_flops=True) as p:
        x @ y
        x + x
        2.0 * x
        x.exp()
        fd.conv2d(image, kernels)
    # The numbers of PyTorch 2.13 for the same calls; PyTorch counts a convolution at `conv2d`.
    expected = [("mm", 120), ("add", 12), ("mul", 12), ("exp", 0), ("convolution", 23328)]
    told = [(event.name, event.flops) for event in p.events() if event.name != "aten::conv2d"]
    assert told == [(f"aten::{name}", flops) for name, flops in expected]
    with profile() as p:
        x @ y
    assert [event.flops for event in p.events()] == [0]


def test_gradients_of_products_and_convolutions_take_as_many_flops_each() -> None:
    x = fd.ones(2, 3, 8, 8, requires_grad=True)
    kernel = fd.ones(6, 3, 3, 3, requires_grad=True)
    with profile(with_flops=True) as p:
        y = fd.conv2d(x, kernel)
        y.backward(fd.ones(*y.shape))
    assert [event.flops for event in p.events() if event.flops] == [23328] * 3


def test_flops_of_a_table_are_in_the_unit_of_the_least() -> None:
    known = [event._replace(flops=1500 * n) for n, event in enumerate(ranges())]
    events = events_of(known)
    lines = events.key_averages().table(sort_by="flops").splitlines()
    assert lines[1].endswith("Total KFLOPs") and events.total_average().flops == 9000
    assert [line.split()[-1] for line in lines[3:7]] == ["4.500", "3.000", "1.500", "--"]
    assert "FLOPs" not in events_of(ranges()).key_averages().table()


def far(x: fd.Tensor) -> fd.Tensor:
    return x.exp()


def test_stacks_tell_who_called_an_op_where_they_are_asked_for() -> None:
    layer = fd.nn.Linear(2, 2)
    layer.register_forward_hook(lambda *given: None)
    with profile(with_stack=True) as p, fd.no_grad():
        far(fd.ones(2))
        with record_function("mine"):
            layer(fd.ones(1, 2))
    told = {event.name: event.stack for event in p.events()}
    first = far.__code__.co_firstlineno
    assert told["aten::exp"][0].endswith(f"test_profiler.py({first + 1}): far")
    assert "test_stacks_tell" in told["aten::exp"][1] and "test_stacks_tell" in told["mine"][0]
    forward, caller, *_ = told["aten::linear"]
    # Only code of fastdist calls `forward`, so the next frame is that of the test.
    assert forward.endswith(": forward") and "test_stacks_tell" in caller
    with profile() as p:
        far(fd.ones(2))
    assert [event.stack for event in p.events()] == [[], []]


def test_gradients_have_the_numbers_and_the_stacks_of_their_ops() -> None:
    x = fd.ones(2, 3, requires_grad=True)
    with profile(with_stack=True, record_shapes=True) as p:
        y = far(x)
        loss = (y * 2.0).sum()
        with fd.no_grad():
            far(x)
        loss.backward()
    found = {(event.name, event.sequence_nr >= 0): event for event in p.events()}
    op, unrecorded = found["aten::exp", True], found["aten::exp", False]
    gradient, leaf = found["ExpBackward0", True], found["torch::autograd::AccumulateGrad", False]
    assert (gradient.sequence_nr, gradient.stack) == (op.sequence_nr, op.stack)
    assert (gradient.scope, op.scope, gradient.fwd_thread) == (1, 0, op.thread)
    assert gradient.input_shapes == leaf.input_shapes == [[2, 3]]
    assert unrecorded.fwd_thread is None and "far" in unrecorded.stack[0]
    # The inner events of the gradient also have the stack of the op; the leaf has no op.
    inside = gradient.cpu_children
    assert inside and all(event.stack == op.stack for event in inside)
    assert leaf.fwd_thread is None and "far" not in leaf.stack[0]


def with_stacks() -> EventList:
    ways = [("g (1)", "f;"), ("h", "f;"), (), ("h", "e")]
    return events_of([r._replace(name="op", stack=w) for r, w in zip(ranges(), ways, strict=True)])


def test_averages_are_grouped_by_the_innermost_of_their_stacks() -> None:
    events = with_stacks()
    told = [(row.count, row.stack) for row in events.key_averages(group_by_stack_n=1)]
    assert told == [(1, ["g (1)"]), (2, ["h"]), (1, [])]
    assert len(events.key_averages(group_by_stack_n=2)) == 4
    assert [row.stack for row in events.key_averages()] == [[]]
    lines = events.key_averages(group_by_stack_n=2).table().splitlines()
    assert lines[1].endswith("Source Location")
    assert [line.split()[-1] for line in lines[3:6] if line.strip()] == ["(1)", "f;"]
    assert "Source Location" not in events.key_averages().table()


def test_stacks_are_written_for_flame_graphs(tmp_path: Path) -> None:
    events = with_stacks()
    events.export_stacks(tmp_path / "stacks")
    assert (tmp_path / "stacks").read_text() == "f_;g_(1) 5\nf_;h 3\ne;h 2000\n"
    events.export_stacks(tmp_path / "stacks", "self_cuda_time_total")
    assert (tmp_path / "stacks").read_text() == ""
    with pytest.raises(ValueError, match="metric should be one of"):
        events.export_stacks(tmp_path / "stacks", "count")


def test_bytes_of_results_are_counted_where_they_are_asked_for() -> None:
    x = fd.ones(4, 3)
    with profile(profile_memory=True) as p, record_function("all"):
        y = x.exp()
        with record_function("given back"):
            y = x.exp()
            del y
        x.add_(1.0)
        fd.log(x, out=x)
    told = [(e.name, e.cpu_memory_usage, e.self_cpu_memory_usage) for e in p.events()]
    assert told == [
        ("all", 0, 0),
        ("aten::exp", 48, 48),
        ("given back", -48, -96),
        ("aten::exp", 48, 48),
        ("aten::add_", 0, 0),
        ("aten::log", 0, 0),
    ]
    with profile() as p:
        x.exp()
    assert [event.cpu_memory_usage for event in p.events()] == [0]


def test_a_table_tells_bytes_before_the_calls() -> None:
    known = [event._replace(memory_bytes=1000**n) for n, event in enumerate(ranges())]
    known[0] = known[0]._replace(memory_bytes=-1)
    lines = events_of(known).key_averages().table(sort_by="cpu_memory_usage").splitlines()
    places = [lines[1].index(name) for name in ("CPU time avg", "CPU Mem", "# of Calls")]
    assert places == sorted(places)
    # The first range contains the second.
    assert [line.split()[-5:-1] for line in lines[3:7]] == [
        ["953.67", "MB", "953.67", "MB"],
        ["976.56", "KB", "976.56", "KB"],
        ["1000", "B", "1000", "B"],
        ["-1", "B", "-1001", "B"],
    ]
    assert "CPU Mem" not in events_of(ranges()).key_averages().table()


def test_remote_and_asynchronous_events_have_no_part_in_a_thread_of_this_process() -> None:
    known = [
        TimeRange("call", "rpc", 0, 9_000, 1, "main", 0, is_async=True),
        TimeRange("mine", "op", 1_000, 8_000, 1, "main", 0),
        TimeRange("theirs", "op", 2_000, 4_000, 1, "pool", 1, is_remote=True),
    ]
    call, mine, theirs = events_of(known)
    assert (call.cpu_parent, mine.cpu_parent, theirs.cpu_parent) == (None, None, None)
    assert [event.self_cpu_time_total for event in (call, mine, theirs)] == [0.0, 7.0, 2.0]
    averages = events_of([*known, known[1]._replace(node_id=3)]).key_averages()
    assert {(row.key, row.node_id) for row in averages} >= {("mine", 0), ("mine", 3)}
    assert "Node ID" in averages.table()


def test_watchers_hear_of_the_first_recording_and_of_the_end_of_the_last() -> None:
    told: list[bool] = []
    late: list[bool] = []
    recordings.watch(told.append)
    with profile(), profile():
        assert told == [True]
        recordings.watch(late.append)
        recordings.unwatch(late.append)
    assert told == late == [True, False]
    recordings.unwatch(told.append)


HELD = fd.ones(3)
PLACES = fd.eye(2).to_sparse()


@pytest.mark.parametrize(
    ("name", "make", "size"),
    [
        ("zeros", lambda: fd.zeros(4, 3), 48),
        ("empty", lambda: fd.empty(4, 3), 48),
        ("rand", lambda: fd.rand(4, 3, dtype=fd.float64), 96),
        ("arange", lambda: fd.arange(5), 40),
        ("ones_like", lambda: fd.ones_like(HELD), 12),
        ("cat", lambda: fd.cat([HELD, HELD]), 24),
        ("expand_as", lambda: HELD.expand_as(HELD), 0),
        ("frombuffer", lambda: fd.frombuffer(bytearray(8), dtype=fd.float32), 0),
        ("broadcast_tensors", lambda: fd.broadcast_tensors(HELD, HELD), 0),
        ("coalesce", PLACES.coalesce, 0),
    ],
)
def test_bytes_of_what_is_made_without_operands_are_counted_and_no_others(
    name: str, make: Callable[[], object], size: int
) -> None:
    with profile(profile_memory=True) as p:
        made = make()
    (event,) = [e for e in p.events() if e.name == f"aten::{name}"]
    assert event.cpu_memory_usage == size and made is not None
