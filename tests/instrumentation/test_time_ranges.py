"""Time ranges: the listeners that receive them, and the threads that they come from."""

from __future__ import annotations

import threading

import pytest

from fastdist.instrumentation.time_ranges import Recording, clock, time_range, time_ranges


def test_nobody_listens_until_a_recording_starts_and_after_it_stopped() -> None:
    assert not time_ranges.on
    with Recording() as recording:
        assert time_ranges.on
        time_ranges.add("mul", "op", clock())
    assert not time_ranges.on
    with time_range("after", "user"):
        pass
    assert [known.name for known in recording.ranges] == ["mul"]


def test_range_holds_its_times_category_and_thread() -> None:
    with Recording() as recording:
        before = clock()
        with time_range("step", "user"):
            pass
        after = clock()
    (known,) = recording.stop()
    assert (known.name, known.category, known.thread_name) == ("step", "user", "MainThread")
    assert before <= known.start_ns <= known.stop_ns <= after
    assert known.thread_id == threading.get_ident()


def test_stop_returns_ranges_in_the_order_in_which_they_began() -> None:
    recording = Recording().start()
    with time_range("outer", "user"), time_range("inner", "user"):
        pass
    time_ranges.add("given", "op", 5, 9)
    assert [known.name for known in recording.stop()] == ["given", "outer", "inner"]


def test_block_that_raises_is_handed_in() -> None:
    with Recording() as recording, pytest.raises(KeyError), time_range("broken", "user"):
        raise KeyError
    assert [known.name for known in recording.ranges] == ["broken"]


def test_range_that_began_before_the_recording_is_left_out() -> None:
    recording = Recording()
    with time_range("early", "user"):
        recording.start()
    assert recording.stop() == []


def test_two_recordings_hear_the_same_and_stop_apart() -> None:
    first, second = Recording().start(), Recording().start()
    time_ranges.add("both", "op", clock())
    first.stop()
    first.stop()
    time_ranges.add("second", "op", clock())
    assert [known.name for known in second.stop()] == ["both", "second"]
    assert [known.name for known in first.ranges] == ["both"]


def test_threads_are_told_apart_by_name() -> None:
    def work() -> None:
        for _ in range(100):
            with time_range("work", "op"):
                pass

    with Recording() as recording:
        threads = [threading.Thread(target=work, name=f"worker-{i}") for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    names = [known.thread_name for known in recording.ranges]
    assert sorted(set(names)) == [f"worker-{i}" for i in range(4)] and len(names) == 400


def test_recording_counts_what_is_beyond_its_limit() -> None:
    with Recording(limit=2) as recording:
        for _ in range(5):
            time_ranges.add("op", "op", clock())
    assert len(recording.ranges) == 2 and recording.dropped == 3


def test_recording_started_twice_hears_once() -> None:
    recording = Recording().start().start()
    time_ranges.add("once", "op", clock())
    assert len(recording.stop()) == 1
