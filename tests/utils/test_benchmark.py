"""A Timer counts the runs of its statement, uses the given threads, and reports measurements."""

from __future__ import annotations

import itertools

import pytest

import fastdist as fd
from fastdist.utils import benchmark


class Clock:
    """A clock that the measured statement advances."""

    def __init__(self) -> None:
        self.now, self.runs = 0.0, 0

    def __call__(self) -> float:
        return self.now

    def work(self, seconds: float) -> None:
        self.now += seconds
        self.runs += 1


def test_timeit_times_its_runs_after_some_that_do_not_count() -> None:
    clock = Clock()
    timer = benchmark.Timer("work(half)", "half = 0.5", timer=clock, globals={"work": clock.work})
    found = timer.timeit(300)
    assert clock.runs == 303 and found.number_per_run == 300
    assert found.raw_times == [150.0] and found.mean == found.median == 0.5 and found.iqr == 0.0


def test_blocked_autorange_runs_blocks_for_as_long_as_it_is_told() -> None:
    clock, told = Clock(), []
    timer = benchmark.Timer("work(1e-4)", timer=clock, globals={"work": clock.work})
    found = timer.blocked_autorange(lambda number, took: told.append(number), min_run_time=0.01)
    assert found.number_per_run * 1e-4 >= 1e-3 and sum(found.raw_times) >= 0.01
    assert told == [found.number_per_run] * len(found.raw_times)
    assert found.median == pytest.approx(1e-4)


def test_a_timer_takes_its_threads_and_gives_them_back() -> None:
    before, seen = fd.get_num_threads(), []
    names = {"tell": lambda: seen.append(fd.get_num_threads())}
    benchmark.Timer("tell()", globals=names, num_threads=1).timeit(2)
    assert set(seen) == {1} and fd.get_num_threads() == before


def test_a_measurement_prints_what_was_measured() -> None:
    ticks = itertools.count()
    timer = benchmark.Timer("pass", label="add", sub_label="64", timer=lambda: float(next(ticks)))
    text = repr(timer.timeit(4))
    assert "add: 64\n  250.00 ms\n  1 measurement, 4 runs, 1 thread" in text
    several = repr(benchmark.Measurement(10, [1e-5, 3e-5, 2e-5], "x"))
    assert "Median: 2.00 us\n  IQR:    1.00 us\n  3 measurements, 10 runs per mea" in several


def test_setup_in_another_language_is_refused() -> None:
    with pytest.raises(ValueError, match=r"global_setup is C\+\+"):
        benchmark.Timer(global_setup="#include <x>")
