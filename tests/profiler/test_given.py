"""Invalid arguments of a profile are rejected with a clear error before recording starts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import fastdist as fd
from fastdist.autograd import profiler as autograd_profiler
from fastdist.distributed import profiler as group_profiler
from fastdist.distributed.profiler import group_recording
from fastdist.graph import recordings
from fastdist.graph.modes import modes
from fastdist.instrumentation.time_ranges import NOTHING, Recording, Wanted, time_ranges
from fastdist.profiler import ProfilerAction, ProfilerActivity, profile, schedule
from fastdist.profiler.events import KeyAverages

X = fd.ones(3)


def recorded(**options: Any) -> profile:
    with profile(**options) as p:
        X + X
        p.step()
    return p


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"schedule": 3}, r"schedule=.*expected a function of a step's number, such as .*got 3"),
        ({"activities": "cpu"}, r"activities=.*expected a list such as \[Prof.*, got 'cpu'"),
        ({"activities": ProfilerActivity.CPU}, r"expected a list .* got <ProfilerActivity.CPU: 0>"),
        ({"activities": 5}, r"expected a list such as .*, got 5"),
        ({"on_trace_ready": "log"}, r"on_trace_ready=.*expected a function of the pro.*got 'log'"),
        ({"custom_trace_id_callback": 3}, "custom_trace_id_callback=.*expected a function of not"),
        ({"execution_trace_observer": 3}, r"expected an object with start.*, got 3, which has no"),
        (
            {"schedule": lambda step: 1},
            "the schedule says 1 for step 0, expected a Prof",
        ),
    ],
)
def test_what_a_profile_cannot_take_is_refused_in_words(options: Any, told: str) -> None:
    with pytest.raises(TypeError, match=told):
        recorded(**options)
    # After the error, the next profile records normally.
    assert not time_ranges.on
    assert recorded().events()[-1].name == "aten::add"


@pytest.mark.parametrize("given", ["cpu", 5, ProfilerActivity.CPU, ["cpu"]])
def test_a_profile_of_the_group_takes_activities_alone(given: Any) -> None:
    with pytest.raises(TypeError, match=r"expected a list such as|Expected ProfilerActivity, got"):
        group_profiler.profile(activities=given)


def test_a_flag_may_be_anything_that_is_true_or_not() -> None:
    # Regression: a flag that was not a bool stopped all recordings in the process.
    p = recorded(record_shapes="yes", with_flops=0, with_stack=None)
    assert p.events()[-1].input_shapes == [[3], [3]]
    assert recorded().events()[-1].input_shapes == []


PROFILES: list[Any] = [profile, autograd_profiler.profile, group_profiler.profile]
FLAGS = ["record_shapes", "with_flops", "with_stack", "profile_memory", "with_modules"]


@pytest.mark.parametrize("flag", FLAGS)
@pytest.mark.parametrize("kind", PROFILES)
def test_a_flag_that_is_neither_true_nor_false_is_refused_in_words(kind: Any, flag: str) -> None:
    with pytest.raises(TypeError, match=rf"profile\({flag}\)=.*expected True or False, got tensor"):
        kind(**{flag: fd.ones(3)})
    kind(**{flag: "yes"})


@pytest.mark.parametrize("flag", ["input_shape", "overload_name", "module"])
def test_what_averages_are_grouped_by_is_true_or_false(flag: str) -> None:
    with pytest.raises(TypeError, match=rf"group_by_{flag}\)=.*expected True or False, got tensor"):
        recorded().key_averages(**{f"group_by_{flag}": fd.ones(3)})
    assert recorded().key_averages(**{f"group_by_{flag}": "yes"})


def fail_once() -> Callable[[bool], None]:
    """Return a watcher whose first call fails."""
    errors = [OSError("no room")]

    def watcher(is_wanted: bool) -> None:
        assert is_wanted or not errors
        if errors:
            raise errors.pop()

    return watcher


def test_a_recording_that_cannot_begin_is_not_begun() -> None:
    def fail(is_on: bool) -> None:
        if is_on:
            raise OSError("no room")

    before, view = (modes.special, modes.tracers), fd.Tensor.view
    wrong: Any = "yes"
    with pytest.raises(TypeError):
        recordings.begin(Recording(wanted=Wanted(shapes=wrong)))
    recordings.watch(fail)
    try:
        p = profile()
        with pytest.raises(OSError, match="no room"):
            p.start()
        p.stop()
        with pytest.raises(OSError, match="no room"):
            group_recording.begin(NOTHING)
        assert group_recording.end() is None
    finally:
        recordings.unwatch(fail)
    time_ranges.watch("shapes", fail_once())
    with pytest.raises(OSError, match="no room"):
        recordings.begin(Recording(wanted=Wanted(shapes=True)))
    assert not time_ranges.on and not time_ranges.listeners()
    # Some watchers had started before the error. Each of them must have been stopped again, such
    # as the one that replaces methods.
    assert fd.Tensor.view is view
    assert (modes.special, modes.tracers) == before
    assert recorded().events()[-1].name == "aten::add"


@pytest.mark.parametrize(
    ("call", "error", "told"),
    [
        (lambda k: k.table(sort_by="cpu_time_totl"), ValueError, "did you mean 'cpu_time_total'?"),
        (lambda k: k.table(sort_by="x"), ValueError, "sort_by is 'x', expected one of .*total'.$"),
        (lambda k: k.table(sort_by=3), TypeError, "sort_by is 3, expected the name of a column"),
        (lambda k: k.table(row_limit="3"), TypeError, "row_limit is '3', expected how many rows"),
        (lambda k: k.table(time_unit="h"), ValueError, "time_unit is 'h'"),
    ],
)
def test_a_table_says_what_it_can_be_asked(
    call: Callable[[Any], str], error: type[Exception], told: str
) -> None:
    with pytest.raises(error, match=told):
        call(recorded().key_averages())


@pytest.mark.parametrize(("given", "error"), [("x", TypeError), (1.5, TypeError), (-1, ValueError)])
def test_how_many_functions_tell_events_apart_is_a_number(
    given: Any, error: type[Exception]
) -> None:
    with pytest.raises(error, match=rf"group_by_stack_n=.*expected how many .*, got {given!r}"):
        recorded().key_averages(group_by_stack_n=given)


@pytest.mark.parametrize("name", ["wait", "warmup", "active", "repeat", "skip_first"])
def test_a_schedule_is_made_of_numbers_of_steps(name: str) -> None:
    given: dict[str, Any] = {"wait": 1, "warmup": 1, "active": 1, name: "1"}
    with pytest.raises(TypeError, match=rf"schedule: {name} is '1', expected a number of steps"):
        schedule(**given)
    assert schedule(wait=1, warmup=1, active=1)(1) is ProfilerAction.WARMUP


def test_all_profiles_average_by_one_function() -> None:
    profiles = (profile, autograd_profiler.profile, group_profiler.profile)
    assert {one.key_averages for one in profiles} == {KeyAverages.key_averages}
    with autograd_profiler.profile(record_shapes=True) as p:
        X + X
        X.reshape(1, 3) + 1
    names = [one.key for one in p.key_averages(group_by_input_shape=True)]
    assert names.count("aten::add") == 2
