"""Names, options and errors of PyTorch's profiler."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import fastdist as fd
from fastdist.autograd import profiler as old
from fastdist.autograd import profiler_util
from fastdist.distributed.rpc import Future
from fastdist.instrumentation.time_ranges import TimeRange
from fastdist.profiler import (
    ProfilerAction,
    ProfilerActivity,
    profile,
    record_function,
    schedule,
    tensorboard_trace_handler,
)
from fastdist.profiler.events import EventList, FunctionEventAvg, events_of


def recorded(**options: Any) -> profile:
    x = fd.ones(2)
    with profile(**options) as p:
        x.exp()
    return p


LONG = "rpc_sync#a_function_of_a_module(worker_number_0 -> worker_number_1)#remote_op: aten::add"


ONES = (1,) * 50


def events() -> EventList:
    """Return events of two threads: a long name around `b`, and a range of 2 s."""
    return events_of(
        [
            TimeRange(
                LONG, "user", 1_000, 9_000, 1, "main", shapes=((1,) * 50,), stack=("s" * 90,)
            ),
            TimeRange("b", "op", 2_000, 5_000, 1, "main"),
            TimeRange("d", "op", 3_000, 2_000_003_000, 2, "other"),
        ]
    )


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_columns_of_a_table_are_as_wide_as_is_said() -> None:
    text = events().table()
    assert f"\n{LONG[:26]}...{LONG[-26:]} " in text and LONG not in text
    assert str([[*ONES]])[:80] in text and str([[*ONES]])[:81] not in text
    assert "..." + "s" * 72 in text and "s" * 73 not in text
    text = events().table(
        max_name_column_width=None, max_shapes_column_width=None, max_src_column_width=None
    )
    assert LONG in text and str([[*ONES]]) in text and "s" * 90 in text
    assert "b" in [row[0] for row in rows(events().table(max_name_column_width=9)) if row]


def test_a_table_shows_top_level_events_alone_where_that_is_asked_for() -> None:
    names = [row[0] for row in rows(events().table(top_level_events_only=True)) if row]
    assert "d" in names and "b" not in names
    averages = events().key_averages().table(top_level_events_only=True)
    assert "This report only display top-level ops statistics" in averages
    assert "b" not in [row[0] for row in rows(averages) if row]


def test_times_of_a_table_are_in_the_unit_that_is_said() -> None:
    assert "2.000s" in events().table() and "8.000us" in events().table()
    text = events().table(time_unit="ms")
    assert "2000.000ms" in text and "0.008ms" in text and "us" not in text.split("Name")[1][60:]
    assert "2000000.000us" in events().table(time_unit="us")
    with pytest.raises(ValueError, match="time_unit is 'h'"):
        events().table(time_unit="h")


def test_events_have_their_times_as_texts_and_the_older_names_warn() -> None:
    long, _, second = events()
    assert (long.cpu_time_str, long.self_cpu_time_total_str) == ("8.000us", "5.000us")
    assert second.cpu_time_total_str == "2.000s" and second.device_time_str == "0.000us"
    (average,) = EventList([second]).key_averages()
    assert average.cpu_time_str == "2.000s"
    for entry in (second, average):
        for name in ("cuda_time", "cuda_time_total", "self_cuda_time_total"):
            with pytest.warns(FutureWarning, match=f"`{name}` is deprecated"):
                assert getattr(entry, name) == 0.0
        with pytest.warns(FutureWarning, match="self_device_memory_usage"):
            assert entry.self_cuda_memory_usage == 0
    assert [event.id for event in events()] == [0, 1, 2] and "seq_nr=-1" in repr(long)


def test_averages_are_added_up_by_hand_as_well() -> None:
    first, second, _ = events()
    total = FunctionEventAvg()
    total += second
    total.add(second)
    assert (total.key, total.count, total.cpu_time_total) == ("b", 2, 6.0)
    with pytest.raises(AssertionError, match="Expected keys to match"):
        total.add(first)
    assert FunctionEventAvg().count == 0 and EventList().total_average().count == 0


def test_a_trace_tells_what_the_user_adds_to_it(tmp_path: Path) -> None:
    p = profile(record_shapes=True, custom_trace_id_callback=lambda: "mine")
    p.preset_metadata_json("before", "[1, 2]")
    assert p.get_trace_id() is None
    with p:
        p.add_metadata("text", 'a "word"')
        p.add_metadata_json("value", '{"a": null}')
    p.export_chrome_trace(str(tmp_path / "trace.json"))
    told = json.loads((tmp_path / "trace.json").read_text())
    assert (told["before"], told["text"]) == ([1, 2], 'a "word"')
    assert (told["value"], told["record_shapes"], told["trace_id"]) == ({"a": None}, 1, "mine")
    assert "with_stack" not in told
    with pytest.raises(ValueError, match="Expecting value"):
        p.add_metadata_json("value", "nothing")
    p.set_custom_trace_id_callback(lambda: "yours")
    with p:
        pass
    assert p.get_trace_id() == "yours" and len(recorded().get_trace_id() or "") == 32


def test_events_of_earlier_recordings_are_kept_where_that_is_asked_for() -> None:
    assert num_saved(acc_events=False) == [1, 1]
    assert num_saved(acc_events=True) == [1, 2]


def num_saved(*, acc_events: bool) -> list[int]:
    """Return the number of events of one op in each of two recordings."""
    found: list[int] = []

    def ready(p: profile) -> None:
        found.append(sum(event.name == "aten::exp" for event in p.events()))

    act = schedule(wait=0, warmup=1, active=1)
    with profile(acc_events=acc_events, schedule=act, on_trace_ready=ready) as p:
        for _ in range(4):
            fd.ones(2).exp()
            p.step()
    return found


def test_collection_is_switched_off_and_on_inside_of_a_block() -> None:
    cpu, x = {ProfilerActivity.CPU}, fd.ones(2)
    with profile() as p:
        x.exp()
        p.toggle_collection_dynamic(False, cpu)
        x.log()
        p.toggle_collection_dynamic(False, {ProfilerActivity.CUDA})
        p.toggle_collection_dynamic(True, cpu)
        x.sin()
    p.toggle_collection_dynamic(False, cpu)
    assert [event.name for event in p.events()] == ["aten::exp", "aten::sin"]


def test_an_observer_is_told_when_a_recording_starts_and_ends() -> None:
    heard: list[str] = []

    class Observer:
        def start(self) -> None:
            heard.append("start")

        def stop(self) -> None:
            heard.append("stop")

        def cleanup(self) -> None:
            heard.append("cleanup")

    recorded(execution_trace_observer=Observer())
    assert heard == ["start", "stop", "cleanup"]


def test_the_steps_of_torchs_own_names_do_the_same() -> None:
    p, x = profile(), fd.ones(2)
    p.prepare_trace()
    p.start_trace()
    assert p.current_action is ProfilerAction.RECORD
    x.exp()
    p.stop_trace()
    assert [event.name for event in p.events()] == ["aten::exp"]
    assert p.current_action is ProfilerAction.NONE


def test_a_stretch_ends_with_a_future_where_that_is_asked_for() -> None:
    future: Future[int] = Future()
    x = fd.ones(2)
    with profile() as p:
        with record_function("call") as stretch:
            done = stretch._call_end_callbacks_on_future(future)
        x.exp()
        future.set_result(3)
        assert done.wait() == 3
    call, op = p.events()
    assert call.name == "call" and call.is_async and op.cpu_parent is None
    assert call.time_range.end >= op.time_range.end
    failed: Future[int] = Future()
    with profile() as p:
        with record_function("call") as stretch:
            done = stretch._call_end_callbacks_on_future(failed)
        failed.set_exception(ValueError("bad"))
        with pytest.raises(ValueError, match="bad"):
            done.wait()
    assert [event.name for event in p.events()] == ["call"]


def test_a_stretch_ends_with_one_future_alone() -> None:
    future: Future[int] = Future()
    again = r"^_call_end_callbacks_on_future can only be called once\."
    with profile(), record_function("call") as stretch:
        stretch._call_end_callbacks_on_future(future)
        with pytest.raises(RuntimeError, match=again):
            stretch._call_end_callbacks_on_future(future)
    with pytest.raises(RuntimeError, match=again):
        stretch._call_end_callbacks_on_future(future)
    future.set_result(1)


def test_what_is_not_done_is_refused_and_says_why(tmp_path: Path) -> None:
    for make in (profile, old.profile):
        with pytest.raises(NotImplementedError, match="Kineto, PyTorch's own recorder"):
            make(experimental_config=object())
        with pytest.raises(TypeError, match="with_stak"):
            make(with_stak=True)
    with pytest.raises(NotImplementedError, match="use_cpu=False"):
        old.profile(use_cpu=False)
    with (
        pytest.raises(ValueError, match="PyTorch's own"),
        profile(schedule=lambda step: ProfilerAction.DEVICE_STOPPED),
    ):
        pass
    for module, name, why in (
        (fd.profiler, "itt", "VTune"),
        (fd.profiler, "ExecutionTraceObserver", "any object with start"),
        (old, "load_nvprof", "nvprof"),
        (old, "ProfilerState", "PyTorch's own recorder"),
    ):
        with pytest.raises(AttributeError, match=why):
            getattr(module, name)
    tensorboard_trace_handler(str(tmp_path), use_python_export=True)(recorded())
    assert len([*tmp_path.iterdir()]) == 1


def test_the_older_profile_is_entered_once_and_shows_itself(tmp_path: Path) -> None:
    p = old.profile(use_kineto=True)
    assert repr(p) == str(p) == "<unfinished torch.autograd.profile>"
    with p:
        fd.ones(2).exp()
        p.toggle_collection_dynamic(False, {ProfilerActivity.CPU})
        fd.ones(2).log()
        with pytest.raises(RuntimeError, match="not reentrant"):
            p.__enter__()
    assert "aten::exp" in str(p) and "aten::log" not in str(p) and "<FunctionEvent" in repr(p)
    p.export_chrome_trace(str(tmp_path / "trace.json"), metadata={"mine": "7"})
    assert json.loads((tmp_path / "trace.json").read_text())["mine"] == 7


def test_parts_of_events_are_where_programs_look_for_them() -> None:
    assert profiler_util.FunctionEvent is old.FunctionEvent
    (event,) = recorded(record_shapes=True).events()
    assert isinstance(event.time_range, profiler_util.Interval)
    assert event.structured_input_shapes == event.input_shapes == [[2]]
    assert not event.is_user_annotation and not event.is_legacy and event.overload_name == ""
    metrics = EventList().supported_export_stacks_metrics()
    assert metrics[:2] == ["self_cpu_time_total", "self_cuda_time_total"]
