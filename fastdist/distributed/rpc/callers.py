"""Who calls this worker: the connections that have greeted, and the lanes they belong to."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from fastdist.core.errors import RpcError
from fastdist.distributed.pipe.limits import DEFAULT

from .received_calls import CallerLane, Request

if TYPE_CHECKING:
    from .membership import Record


class Forgotten(NamedTuple):
    """What was known of a caller: its connections, and its calls that waited for room."""

    routes: list[bytes]
    held: list[Request]


class Callers:
    """Lanes of callers, by the connection that each has now; of one caller, max_lanes at most.

    Thread  greeted: the leader; everything else: any
    """

    def __init__(self, max_lanes: int, max_unread_bytes: int = DEFAULT.outstanding_bytes) -> None:
        self._max_lanes = max_lanes
        self._max_unread_bytes = max_unread_bytes
        # Guards both; a look-up by route reads one entry.
        self._lock = threading.Lock()
        self.by_route: dict[bytes, CallerLane] = {}
        self._by_number: dict[tuple[int, int], CallerLane] = {}

    def drop_routes(self, knows: Callable[[bytes], bool]) -> None:
        """Forget connections that have ended."""
        with self._lock:
            for route in [route for route in self.by_route if not knows(route)]:
                del self.by_route[route]

    def num_held(self) -> int:
        """Return how many calls wait until their callers have read answers."""
        with self._lock:
            return sum(lane.num_held() for lane in self._by_number.values())

    def greeted(self, record: Record, number: int, route: bytes, count: int = 0) -> list[Request]:
        """Take note of a connection, the first or a later one of a caller's lane.

        The greetings of a caller count up; what was said before a later one is not listened to.
        Returned are calls that waited until answers were read, and need not any more.

        Raises  RpcError for a number beyond what a caller may have: each lane is remembered, with
                its last answer, as long as the caller lives
        """
        if number >= self._max_lanes:
            raise RpcError(
                f"worker {record.name!r} greets by lane {number}; a member has {self._max_lanes} "
                "connections to this worker at most, and numbers its lanes from 0"
            )
        key = (record.rank, number)
        with self._lock:
            lane = self._by_number.get(key)
            waited: list[Request] = []
            if lane is None or lane.record != record:
                waited = [] if lane is None else lane.end()
                lane = self._by_number[key] = CallerLane(record, number, self._max_unread_bytes)
            if count < lane.last_greeting:
                return waited
            lane.last_greeting = count
            # What is left of the lane's earlier connection is not read any more.
            self.by_route.pop(lane.route, None)
            self.by_route[route] = lane
            return [*waited, *lane.moved_to(route)]

    def forget(self, rank: int, incarnation: int) -> Forgotten:
        """Take no more requests from a worker; from who has its rank now, all the same."""
        return self._forget(
            lambda lane: lane.rank == rank and lane.record.incarnation == incarnation
        )

    def forget_all(self) -> Forgotten:
        """Take no more requests from anybody who has greeted so far."""
        return self._forget(lambda lane: True)

    def _forget(self, is_of: Callable[[CallerLane], bool]) -> Forgotten:
        with self._lock:
            routes = [route for route, lane in self.by_route.items() if is_of(lane)]
            for route in routes:
                del self.by_route[route]
            keys = [key for key, lane in self._by_number.items() if is_of(lane)]
            lanes = [self._by_number.pop(key) for key in keys]
        return Forgotten(routes, [request for lane in lanes for request in lane.end()])
