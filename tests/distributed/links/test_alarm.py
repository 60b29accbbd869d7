"""The timeouts of a call: warnings, failures, and the members that they name."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest

from fastdist.core.errors import (
    CollectiveError,
    CollectiveLostError,
    CollectiveMismatchError,
    CollectiveTimeoutError,
)
from fastdist.distributed.links import alarm
from fastdist.distributed.links.alarm import Alarm, Waiting
from fastdist.distributed.links.members import Members, Record
from fastdist.distributed.process_group.transport import Call


def members(count: int = 3) -> Members:
    return Members(
        [
            Record(10 + one, one, 0, {}, "none", "", "", "", "", pid=100 + one, host="h")
            for one in range(count)
        ]
    )


class Clock:
    """A stand-in for the time module; the test sets the time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(alarm, "time", SimpleNamespace(monotonic=lambda: self.now))


def waiting_of(clock: Clock, of: Alarm, timeout_s: float, notice_s: float) -> Waiting:
    call = Call(7, "all_reduce", "", "a.py:3", clock.now + timeout_s)
    return Waiting(call, members(), of, notice_s)


def test_a_call_waits_until_its_deadline_and_gives_up_in_that_moment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock(monkeypatch)
    waiting = waiting_of(clock, Alarm(), 8.0, 100.0)
    assert waiting.look([1]) == 8.0
    clock.now += 6.0
    assert waiting.look([1]) == 2.0
    assert waiting.look([1], 0.5) == 2.5
    clock.now += 2.0
    assert waiting.look([1], 0.5) == 0.5
    with pytest.raises(CollectiveTimeoutError) as raised:
        waiting.look([1, 2])
    assert str(raised.value) == (
        "all_reduce at a.py:3 (number 7 of the group): Timed out waiting 8000ms: rank 11 (pid 101 "
        "on h), rank 12 (pid 102 on h) had not come after 8 s"
    )
    clock.now += 0.5
    with pytest.raises(CollectiveTimeoutError, match=r"after 8\.5 s"):
        waiting.look([1], 0.5)


def test_it_warns_at_each_notice_interval_and_asks_where_those_are_that_are_late(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock, of, late = Clock(monkeypatch), Alarm(), list[list[int]]()
    of.on_late = lambda missing: late.append(list(missing))
    waiting = waiting_of(clock, of, 60.0, 5.0)
    with caplog.at_level(logging.WARNING):
        for after_s, left_s in ((0.0, 5.0), (4.0, 1.0), (1.0, 5.0), (4.5, 0.5), (1.0, 5.0)):
            clock.now += after_s
            assert waiting.look([1]) == left_s
    assert late == [[1], [1]]
    text = "all_reduce at a.py:3 has waited {} s for rank 11 (pid 101 on h)"
    assert caplog.messages == [text.format("5"), text.format("10.5")]


def test_a_wait_fails_once_all_that_are_missing_have_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    of, woken = Alarm(), list[str]()
    of.wakers.append(lambda: woken.append("woken"))
    waiting = waiting_of(Clock(monkeypatch), of, 3.0, 100.0)
    of.member_left(1)
    assert woken == ["woken"]
    assert waiting.look([2]) == waiting.look([1, 2]) == 3.0
    with pytest.raises(CollectiveLostError) as raised:
        waiting.look([1])
    assert str(raised.value) == "rank 11 (pid 101 on h) left the group: all_reduce waits in vain"
    of.member_left(2)
    with pytest.raises(CollectiveLostError, match=r"rank 11 .*, rank 12 .* left the group"):
        waiting.look([2, 1])


def test_the_first_failure_stays_and_is_raised_anew_each_time() -> None:
    of, woken = Alarm(), list[str]()
    of.wakers += [lambda: woken.append("one"), lambda: woken.append("other")]
    of.require_none()
    first = CollectiveTimeoutError("too late")
    assert of.set(first) is True
    assert of.set(ValueError("later")) is False
    assert woken == ["one", "other"]
    for _ in range(2):
        with pytest.raises(CollectiveTimeoutError, match="too late") as raised:
            of.require_none()
        assert raised.value is not first
    other = Alarm()
    error = ValueError("a user's own")
    other.set(error)
    with pytest.raises(ValueError, match="a user's own") as given:
        other.require_none()
    assert given.value is error


def test_errors_travel_by_number_and_keep_their_type() -> None:
    kinds = (
        (alarm.LOST, CollectiveLostError),
        (alarm.TIMED_OUT, CollectiveTimeoutError),
        (alarm.MISMATCH, CollectiveMismatchError),
        (alarm.FAILED, CollectiveError),
    )
    assert len({alarm.LEFT, *(kind for kind, _ in kinds)}) == 5
    for kind, error in kinds:
        assert alarm.kind_of(error("it")) == kind != 0
        assert type(alarm.error_of(kind, "it")) is error
    assert alarm.kind_of(ValueError("it")) == alarm.FAILED
    assert type(alarm.error_of(alarm.LEFT, "it")) is CollectiveLostError
    assert type(alarm.error_of(99, "it")) is CollectiveError
