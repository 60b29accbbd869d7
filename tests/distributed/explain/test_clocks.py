"""Other workers' clocks are estimated with an error of at most half the quickest round trip."""

from __future__ import annotations

import random

import pytest

from fastdist.distributed.explain import clocks
from fastdist.distributed.explain.clocks import Clock, Passage, Sighting, fit, sight


def test_the_quickest_round_trip_tells_the_offset(monkeypatch: pytest.MonkeyPatch) -> None:
    # The other clock is 1000 behind; the second trip is the quickest, and its middle is used.
    trips = [(0, 90, 100), (200, 205, 210), *[(n, n + 70, n + 100) for n in range(300, 900, 100)]]
    ours = iter([moment for sent, _, came in trips for moment in (sent, came)])
    theirs = iter([read - 1000 for _, read, _ in trips])
    monkeypatch.setattr(clocks, "clock", lambda: next(ours))
    assert sight(lambda: next(theirs)) == Sighting(205, 1000, 5)


def test_a_clock_that_drifts_is_followed() -> None:
    # Within 1 s of our clock, the other one falls behind by 1 ms.
    clock = Clock(Sighting(0, 0, 10), Sighting(1_000_000_000, 1_000_000, 10))
    assert clock.ours(0) == 0
    assert clock.ours(500_000_000) == pytest.approx(500_500_000, abs=1000)


def test_what_the_sightings_may_be_wrong_by_is_no_drift() -> None:
    clock = Clock(Sighting(0, 50, 40), Sighting(1_000, 90, 20))
    assert clock.ours(500) == 590  # by the sighting with the smaller error


def test_messages_tell_more_than_round_trips_that_took_long() -> None:
    # Worker 1's clock is 1000 ahead. A message in each direction shows this; each travels for 10.
    seen = {0: Sighting(0, 0, 0), 1: Sighting(0, -700, 5_000)}
    passages = [Passage(0, 100, 1, 1_110), Passage(1, 1_200, 0, 210)]
    assert fit(seen, passages, 0) == {0: 0, 1: -1_000}


def test_no_message_comes_before_it_left_whatever_clocks_and_ways() -> None:
    rng = random.Random(7)
    for _ in range(200):
        ahead = {0: 0, **{worker: rng.randrange(-(10**9), 10**9) for worker in range(1, 5)}}
        seen = {0: Sighting(0, 0, 0)}
        for worker in range(1, 5):
            error = rng.randrange(1, 10**6)
            seen[worker] = Sighting(0, rng.randrange(-error, error + 1) - ahead[worker], error)
        passages = []
        for _ in range(rng.randrange(12)):
            sender, receiver = rng.sample(range(5), 2)
            left = rng.randrange(10**9)
            came = left + rng.randrange(10**5)
            passages.append(Passage(sender, left + ahead[sender], receiver, came + ahead[receiver]))
        found = fit(seen, passages, 0)
        assert found[0] == 0
        for one in passages:
            left = one.left_ns + found[one.from_worker]
            assert left <= one.came_ns + found[one.to_worker]
        for worker, sighting in seen.items():
            assert abs(found[worker] - sighting.offset_ns) <= sighting.error_ns


def test_sightings_that_messages_rule_out_give_way() -> None:
    # Worker 1's clock drifted by 400 since the message, but the sighting claims an error of 10.
    seen = {0: Sighting(0, 0, 0), 1: Sighting(0, -1_000, 10)}
    found = fit(seen, [Passage(0, 100, 1, 705)], 0)
    assert -1_000 < found[1] <= -605 + 640 and 705 + found[1] >= 100
    # If messages contradict each other, only the sightings are used.
    seen |= {2: Sighting(0, 5, 10)}
    assert fit(seen, [Passage(1, 100, 2, 50), Passage(2, 100, 1, 50)], 0)[2] == 5
