"""The claim that other workers' clocks are read to within half of the quickest round trip."""

from __future__ import annotations

import pytest

from fastdist.distributed.profiler import clocks
from fastdist.distributed.profiler.clocks import Clock, Sighting, sight


def test_the_quickest_round_trip_tells_the_offset(monkeypatch: pytest.MonkeyPatch) -> None:
    # Theirs is 1000 behind; the second trip is the quickest, and is read in its middle.
    trips = [(0, 90, 100), (200, 205, 210), *[(n, n + 70, n + 100) for n in range(300, 900, 100)]]
    ours = iter([moment for sent, _, came in trips for moment in (sent, came)])
    theirs = iter([read - 1000 for _, read, _ in trips])
    monkeypatch.setattr(clocks, "clock", lambda: next(ours))
    assert sight(lambda: next(theirs)) == Sighting(205, 1000, 5)


def test_a_clock_that_drifts_is_followed() -> None:
    # From 0 to 1 s of ours, theirs falls 1 ms behind.
    clock = Clock(Sighting(0, 0, 10), Sighting(1_000_000_000, 1_000_000, 10))
    assert clock.ours(0) == 0
    assert clock.ours(500_000_000) == pytest.approx(500_500_000, abs=1000)


def test_what_the_sightings_may_be_wrong_by_is_no_drift() -> None:
    clock = Clock(Sighting(0, 50, 40), Sighting(1_000, 90, 20))
    assert clock.ours(500) == 590  # the better of the two sightings
