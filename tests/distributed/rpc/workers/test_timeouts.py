"""Deadlines expire in order, never early, and leave nothing behind."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

from fastdist.distributed.rpc.metrics import TimeSeriesMetricsTracker
from fastdist.distributed.rpc.workers.progress import BUCKET_S, Timeouts


def timeouts_of_numbers() -> Any:
    """Return a Timeouts whose calls are identified by numbers."""
    return Timeouts()


@pytest.mark.seed("T19")
def test_calls_expire_at_their_deadline_and_not_before() -> None:
    timeouts = timeouts_of_numbers()
    timeouts.add(1, 10.0)
    timeouts.add(2, 10.005)
    timeouts.add(3, 20.0)
    assert timeouts.expire(9.999) == []
    assert timeouts.expire(10.0) == [1]
    assert timeouts.expire(10.02) == [2]
    assert len(timeouts) == 1


def test_a_removed_call_does_not_expire() -> None:
    timeouts = timeouts_of_numbers()
    timeouts.add(1, 10.0)
    timeouts.remove(1, 10.0)
    timeouts.remove(1, 10.0)
    assert timeouts.expire(11.0) == [] and len(timeouts) == 0
    assert timeouts.sleep_until() == math.inf


def test_only_an_earlier_deadline_wakes_the_sleeper() -> None:
    timeouts = timeouts_of_numbers()
    assert timeouts.add(1, 60.0)
    assert timeouts.sleep_until() == 60.0
    assert not timeouts.add(2, 61.0)
    assert timeouts.add(3, 5.0)
    assert not timeouts.add(4, 5.0)
    assert timeouts.sleep_until() == 5.0


def test_a_sleeper_that_looks_up_before_a_deadline_is_not_woken_for_it() -> None:
    timeouts = timeouts_of_numbers()
    assert timeouts.sleep_until(alarm=5.0) == 5.0
    assert not timeouts.add(1, 60.0)
    assert timeouts.add(2, 4.0)
    assert timeouts.sleep_until(alarm=5.0) == 4.0
    timeouts.expire(4.0)
    # Only call 1 is left, so the thread sleeps until its deadline.
    assert timeouts.sleep_until() == 60.0 and not timeouts.add(3, 61.0)


@pytest.mark.one_in(4)
def test_any_mixture_ends_empty() -> None:
    rng = random.Random(3)
    timeouts, alive, now = timeouts_of_numbers(), dict[int, float](), 0.0
    for call_id in range(5000):
        deadline = now + rng.random() * 3
        timeouts.add(call_id, deadline)
        alive[call_id] = deadline
        if rng.random() < 0.5:
            gone = rng.choice(list(alive))
            timeouts.remove(gone, alive.pop(gone))
        now += rng.random() * 0.01
        for expired in timeouts.expire(now):
            deadline = alive.pop(expired)
            assert deadline <= now
        assert all(deadline + BUCKET_S > now for deadline in alive.values())
    timeouts.expire(now + 10)
    assert len(timeouts) == 0 and not timeouts._calls_at and not timeouts._times


@pytest.mark.seed("T19", "T32")
def test_nothing_expires_once_all_calls_are_to_hear_of_the_end() -> None:
    timeouts = timeouts_of_numbers()
    timeouts.add(1, 10.0)
    timeouts.close()
    assert not timeouts.add(2, 11.0)
    timeouts.remove(1, 10.0), timeouts.remove(2, 11.0)
    assert timeouts.expire(20.0) == [] and len(timeouts) == 0
    assert timeouts.sleep_until() == math.inf


@pytest.mark.seed("T22")
def test_an_average_over_time_is_zero_while_empty() -> None:
    tracker = TimeSeriesMetricsTracker()
    assert tracker.compute_average() == 0
    tracker.add_data(2)
    tracker.add_data(5)
    assert tracker.compute_average() == 3.5
    assert TimeSeriesMetricsTracker(10, 4).compute_average() == 2.5


def test_buckets_behind_a_late_deadline_go_with_the_calls_that_were_in_them() -> None:
    timeouts, day = timeouts_of_numbers(), 86_400.0
    timeouts.add("a call that runs all day", day)
    timeouts.add("another", day + 100.0)
    for call_id in range(20_000):
        deadline = day + 1.0 + call_id * BUCKET_S
        timeouts.add(call_id, deadline)
        timeouts.remove(call_id, deadline)
        timeouts.expire(call_id * BUCKET_S)
    assert len(timeouts) == 2
    assert len(timeouts._calls_at) < 1000 and len(timeouts._times) == len(timeouts._calls_at)
    assert timeouts.expire(day + 50.0) == ["a call that runs all day"]
    assert timeouts.expire(day + 100.0 + BUCKET_S) == ["another"]


def test_a_bucket_that_fills_again_is_not_collected() -> None:
    timeouts, keeps = timeouts_of_numbers(), range(1000, 1400)
    timeouts.add("first", 1.0)
    for call_id in keeps:
        deadline = call_id * BUCKET_S
        timeouts.add("gone", deadline)
        timeouts.remove("gone", deadline)
        timeouts.add(call_id, deadline)
    for call_id in range(2000, 3000):  # so many empty buckets make Timeouts collect them
        timeouts.add("gone", call_id * BUCKET_S)
        timeouts.remove("gone", call_id * BUCKET_S)
    assert len(timeouts) == 1 + len(keeps)
    assert timeouts.expire(100.0) == ["first", *keeps]
