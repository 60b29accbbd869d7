"""How far another worker's clock is from this one's, from round trips."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from ...core.time_ranges import clock

_ROUNDS: Final = 8


class Sighting(NamedTuple):
    """At a moment of our clock: what to add to theirs to have ours, and how wrong it may be.

    Units   nanoseconds
    """

    at_ns: int
    offset_ns: int
    error_ns: int


def sight(ask: Callable[[], int]) -> Sighting:
    """Return the offset of the clock that ask() reads, from the quickest of some round trips.

    Note    it was read somewhere between question and answer: the middle is wrong by half a round
            trip at most
    """
    found: list[Sighting] = []
    for _ in range(_ROUNDS):
        sent_ns = clock()
        theirs_ns = ask()
        came_ns = clock()
        middle_ns = (sent_ns + came_ns) // 2
        found.append(Sighting(middle_ns, middle_ns - theirs_ns, (came_ns - sent_ns) // 2))
    return min(found, key=lambda sighting: sighting.error_ns)


class Clock:
    """Another worker's clock, sighted before and after: between the two it is taken to drift
    evenly.
    """

    def __init__(self, first: Sighting, last: Sighting) -> None:
        self._first, self._last = first, last

    def ours(self, theirs_ns: int) -> int:
        """Return what our clock showed when theirs showed that."""
        first, last = self._first, self._last
        passed_ns = last.at_ns - first.at_ns
        # A drift that is smaller than what the sightings may be wrong by is none.
        if (
            passed_ns <= 0
            or abs(last.offset_ns - first.offset_ns) <= first.error_ns + last.error_ns
        ):
            return theirs_ns + (first if first.error_ns <= last.error_ns else last).offset_ns
        part = (theirs_ns + first.offset_ns - first.at_ns) / passed_ns
        return theirs_ns + first.offset_ns + round(part * (last.offset_ns - first.offset_ns))
