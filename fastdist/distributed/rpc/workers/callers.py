"""Who calls this worker: the connections that have greeted, and the lanes they belong to."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence

from fastdist.core.errors import FastdistError, RpcError
from fastdist.distributed.pipe.listener import Listener, Route

from ..message.remote_errors import pack_error
from .received_calls import CallerLane, Request
from .record import Record
from .worker import Worker


class Callers:
    """Lanes of callers, by the connection that each has now; of one caller, as many as its limits
    let it have.

    `let_go` has calls that were held back, and may begin: see Note [Answers that are not read]. The
    pool's leader takes them.

    Thread  greeted: the leader; everything else: any
    """

    def __init__(self, listener: Listener, me: Record) -> None:
        self.me = me
        self._listener = listener
        # Guards the two below it; a look-up by route reads one entry.
        self._lock = threading.Lock()
        self.by_route: dict[Route, CallerLane] = {}
        self._lanes: dict[Worker, dict[int, CallerLane]] = {}  # by their numbers
        self.let_go: deque[Request] = deque()

    def num_held(self) -> int:
        """Return how many calls wait until their callers have read answers."""
        with self._lock:
            return sum(lane.num_held() for one in self._lanes.values() for lane in one.values())

    def greeted(self, caller: Worker, number: int, route: Route, count: int = 0) -> None:
        """Take note of a connection, the first or a later one of a caller's lane.

        The greetings of a caller count up; what was said before a later one is not listened to.

        Raises  RpcError for a number beyond what a caller may have: each lane is remembered, with
                its last answer, as long as the caller lives
        """
        limits = self.me.limits
        if number >= limits.connections:
            raise RpcError(
                f"worker {caller.name!r} greets by lane {number}; a member has "
                f"{limits.connections} connections to this worker at most, and numbers its lanes "
                "from 0"
            )
        known = self._lanes.get(caller, {}).get(number)
        if known is not None and known.route != route and caller.lender is not None:
            # Answers on their way by the connection before are lost, with what they lent.
            caller.lender.connection_broke()
        with self._lock:
            if route not in self.by_route:
                # Those of connections that have ended are forgotten now and then.
                for old in [old for old in self.by_route if not self._listener.knows(old)]:
                    del self.by_route[old]
            lanes = self._lanes.setdefault(caller, {})
            lane = lanes.get(number)
            if lane is None:
                lane = lanes[number] = CallerLane(caller, number, limits.outstanding_bytes)
            if count < lane.last_greeting:
                return
            lane.last_greeting = count
            # What is left of the lane's earlier connection is not read any more.
            self.by_route.pop(lane.route, None)
            self.by_route[route] = lane
            self.let_go.extend(lane.moved_to(route))

    def forget(self, caller: Worker, word: FastdistError | None = None) -> None:
        """Take no more requests from a worker that is lost or has left, and tell it so by a word;
        from who has its rank now, all the same.

        Note    who was only cut off hears it at once, by a connection that still holds; another one
                when it greets again
        """
        routes = self._forget([caller], are_wanted=True)
        if word is not None:
            self.refuse(routes, word)

    def fence(self, word: FastdistError) -> None:
        """Run nothing more for anybody who has greeted so far, and tell all of them why.

        Note    who greets from here on is not admitted
        """
        self.refuse(self._forget(list(self._lanes), are_wanted=False), word)

    def refuse(self, routes: Sequence[Route], error: FastdistError) -> None:
        """Answer a greeting, the last one of each connection, with an error."""
        refusal = pack_error(error, self.me.name).encode()
        for route in routes:
            self._listener.reply(route, refusal)

    def _forget(self, callers: Sequence[Worker], *, are_wanted: bool) -> list[Route]:
        """Forget callers, let the calls of theirs that are held back run or, if they are not wanted
        any more, end; return the connections that they had.
        """
        with self._lock:
            lanes = [lane for one in callers for lane in self._lanes.pop(one, {}).values()]
            routes = [lane.route for lane in lanes if self.by_route.pop(lane.route, None)]
        for request in [request for lane in lanes for request in lane.end()]:
            if not are_wanted:
                request.deadline = 0.0  # as where its caller has given it up
            self.let_go.append(request)
        if self.let_go:
            self._listener.wake()
        return routes
