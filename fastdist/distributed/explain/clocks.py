"""Estimates the offsets of other workers' clocks, from round trips and messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from fastdist.instrumentation.time_ranges import clock

_ROUNDS: Final = 8


class Sighting(NamedTuple):
    """The offset to add to another clock's time to get this clock's time, at one moment of this
    clock, and the largest possible error of the offset.

    Units   nanoseconds
    """

    at_ns: int
    offset_ns: int
    error_ns: int


def sight(ask: Callable[[], int]) -> Sighting:
    """Return the offset of the clock that ask() reads, from the fastest of several round trips.

    Note    the other clock was read at an unknown time between question and answer. The offset
            assumes the middle, so its error is at most half a round trip
    """
    found: list[Sighting] = []
    for _ in range(_ROUNDS):
        sent_ns = clock()
        theirs_ns = ask()
        came_ns = clock()
        middle_ns = (sent_ns + came_ns) // 2
        found.append(Sighting(middle_ns, middle_ns - theirs_ns, (came_ns - sent_ns) // 2))
    return min(found, key=lambda sighting: sighting.error_ns)


class Passage(NamedTuple):
    """The times of a message: departure on the sender's clock, and arrival on the receiver's.

    Units   nanoseconds
    """

    from_worker: int
    left_ns: int
    to_worker: int
    came_ns: int


def fit(sightings: Mapping[int, Sighting], passages: Iterable[Passage], own: int) -> dict[int, int]:
    """Return, for each worker, the offset to add to its clock's times to get times of the clock of
    worker `own`.

    The offset is the middle of the range that both the sightings and the messages allow. The
    messages limit this range, because no message arrives before it was sent.

    Note    if clocks drift, this range may be empty; then the sightings' errors are doubled until
            it is not empty
    """
    # For each pair of receiver and sender, the smallest difference between arrival and departure.
    least: dict[tuple[int, int], int] = {}
    for passage in passages:
        pair = (passage.to_worker, passage.from_worker)
        spare = passage.came_ns - passage.left_ns
        if pair[0] in sightings and pair[1] in sightings:
            least[pair] = min(spare, least.get(pair, spare))
    for times in range(_WIDENINGS):
        bounds = dict(least)
        for worker, sighting in sightings.items():
            if worker != own:
                error_ns = sighting.error_ns << times
                _lower(bounds, (own, worker), sighting.offset_ns + error_ns)
                _lower(bounds, (worker, own), error_ns - sighting.offset_ns)
        highest = _distances(bounds, own, sightings)
        turned = {(there, here): bound for (here, there), bound in bounds.items()}
        lowest = _distances(turned, own, sightings)
        if highest is not None and lowest is not None:
            # The constraints allow offsets from -lowest to highest; take the middle.
            return {worker: (highest[worker] - lowest[worker]) // 2 for worker in sightings}
    return {worker: sighting.offset_ns for worker, sighting in sightings.items()}


_Bounds = dict[tuple[int, int], int]
_WIDENINGS: Final = 32


def _lower(bounds: _Bounds, pair: tuple[int, int], bound: int) -> None:
    bounds[pair] = min(bound, bounds.get(pair, bound))


def _distances(bounds: _Bounds, own: int, workers: Iterable[int]) -> dict[int, int] | None:
    """Return the largest offsets with offset[b] - offset[a] <= bounds[a, b]; None if there are no
    such offsets.

    Source  R. Bellman 1958, "On a routing problem"
    """
    found = {own: 0}
    for _ in workers:
        is_settled = True
        for (here, there), bound in bounds.items():
            if here in found and found[here] + bound < found.get(there, found[here] + bound + 1):
                found[there] = found[here] + bound
                is_settled = False
        if is_settled:
            return found
    return None


class Clock:
    """Another worker's clock, known from two sightings, one before and one after a period.

    Between the two sightings, the clock is assumed to drift linearly.
    """

    def __init__(self, first: Sighting, last: Sighting) -> None:
        self._first, self._last = first, last

    def ours(self, theirs_ns: int) -> int:
        """Return this process's time at the moment when the other clock showed theirs_ns."""
        first, last = self._first, self._last
        passed_ns = last.at_ns - first.at_ns
        # A drift within the sightings' errors is ignored.
        if (
            passed_ns <= 0
            or abs(last.offset_ns - first.offset_ns) <= first.error_ns + last.error_ns
        ):
            return theirs_ns + (first if first.error_ns <= last.error_ns else last).offset_ns
        part = (theirs_ns + first.offset_ns - first.at_ns) / passed_ns
        return theirs_ns + first.offset_ns + round(part * (last.offset_ns - first.offset_ns))
