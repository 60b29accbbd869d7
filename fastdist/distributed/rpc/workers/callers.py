"""Who calls this worker: the connections that have greeted, and the lanes they belong to."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import NamedTuple

from fastdist.core.errors import RpcError
from fastdist.distributed.pipe.listener import Route

from ..message.limits import DEFAULT
from .received_calls import Caller, CallerLane, Request


class Forgotten(NamedTuple):
    """What was known of a caller: its connections, and its calls that waited for room."""

    routes: list[Route]
    held: list[Request]


class Callers:
    """Lanes of callers, by the connection that each has now; of one caller, max_lanes at most.

    Thread  greeted: the leader; everything else: any
    """

    def __init__(self, max_lanes: int, max_unread_bytes: int = DEFAULT.outstanding_bytes) -> None:
        self._max_lanes = max_lanes
        self._max_unread_bytes = max_unread_bytes
        # Guards it and the lanes of each worker; a look-up by route reads one entry.
        self._lock = threading.Lock()
        self.by_route: dict[Route, CallerLane] = {}
        self._with_lanes: set[Caller] = set()

    def drop_routes(self, knows: Callable[[Route], bool]) -> None:
        """Forget connections that have ended."""
        with self._lock:
            for route in [route for route in self.by_route if not knows(route)]:
                del self.by_route[route]

    def num_held(self) -> int:
        """Return how many calls wait until their callers have read answers."""
        with self._lock:
            return sum(lane.num_held() for one in self._with_lanes for lane in one.lanes.values())

    def greeted(self, caller: Caller, number: int, route: Route, count: int = 0) -> list[Request]:
        """Take note of a connection, the first or a later one of a caller's lane.

        The greetings of a caller count up; what was said before a later one is not listened to.
        Returned are calls that waited until answers were read, and need not any more.

        Raises  RpcError for a number beyond what a caller may have: each lane is remembered, with
                its last answer, as long as the caller lives
        """
        if number >= self._max_lanes:
            raise RpcError(
                f"worker {caller.name!r} greets by lane {number}; a member has {self._max_lanes} "
                "connections to this worker at most, and numbers its lanes from 0"
            )
        with self._lock:
            self._with_lanes.add(caller)
            lane = caller.lanes.get(number)
            if lane is None:
                lane = caller.lanes[number] = CallerLane(caller, number, self._max_unread_bytes)
            if count < lane.last_greeting:
                return []
            lane.last_greeting = count
            # What is left of the lane's earlier connection is not read any more.
            self.by_route.pop(lane.route, None)
            self.by_route[route] = lane
            return lane.moved_to(route)

    def forget(self, caller: Caller) -> Forgotten:
        """Take no more requests from a worker; from who has its rank now, all the same."""
        return self._forget([caller])

    def forget_all(self) -> Forgotten:
        """Take no more requests from anybody who has greeted so far."""
        return self._forget(list(self._with_lanes))

    def _forget(self, callers: list[Caller]) -> Forgotten:
        with self._lock:
            self._with_lanes.difference_update(callers)
            lanes = [lane for caller in callers for lane in caller.lanes.values()]
            for caller in callers:
                caller.lanes = {}
            routes = [lane.route for lane in lanes if self.by_route.pop(lane.route, None)]
        return Forgotten(routes, [request for lane in lanes for request in lane.end()])
