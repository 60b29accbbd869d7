"""The stopwatch's sums and ranges."""

from __future__ import annotations

import pytest

from fastdist.examples.stopwatch import Stopwatch


def test_ranges_of_a_kind_add_up() -> None:
    watch = Stopwatch("worker")
    watch.add("forward", 1.0, 1.5)
    watch.add("forward", 2.0, 2.25)
    watch.add("backward", 2.0, 3.0)
    assert watch.totals() == {"forward": 0.75, "backward": 1.0}


def test_a_block_is_measured_even_if_it_raises() -> None:
    watch = Stopwatch("worker")
    before = watch.now()
    with pytest.raises(ValueError, match="no"), watch.measure("forward"):
        raise ValueError("no")
    (measured,) = watch.ranges()
    assert before <= measured.start_s <= measured.end_s <= watch.now()


def test_only_the_latest_ranges_are_kept() -> None:
    watch = Stopwatch("worker")
    for number in range(1000):
        watch.add("forward", number, number + 0.5)
    assert len(watch.ranges()) < 1000
    assert watch.ranges()[-1].start_s == 999
    assert watch.totals() == {"forward": 500}


def test_a_range_that_goes_on_is_one() -> None:
    watch = Stopwatch("worker")
    watch.add("backward", 1.0, 2.0)
    watch.add("backward", 2.0, 2.5)
    watch.add("forward", 2.5, 3.0)
    assert [(entry.start_s, entry.end_s) for entry in watch.ranges()] == [(1.0, 2.5), (2.5, 3.0)]
    assert watch.totals() == {"backward": 1.5, "forward": 0.5}
