"""The callers of this worker: connections that have greeted, their lanes, and their calls."""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Collection, Iterable, Sequence
from typing import Final, Protocol

from fastdist.core.errors import FastdistError, RpcError
from fastdist.distributed.pipe.frames import Buffer
from fastdist.distributed.pipe.listener import Listener, Route

from ..message.limits import DEFAULT
from ..message.remote_errors import pack_error
from .reconciliation import UNREAD_STEP_BYTES, Reconciliation
from .record import Record
from .worker import Worker

# Note [Lanes of callers]
# A lane outlives its connections. A caller whose connection broke greets again on the next one and
# queries the calls that it still waits for. Messages on the earlier connection are not read any
# more from then on, so the answer to that query is final: a call runs, or was answered (and its
# answer, kept here, is sent again), or never came and may be sent again under the same id.

# Note [Answers that are kept]
# An answer is kept until its caller acknowledges it. On the lane of a blocking caller the next call
# does that, or a CREDIT message behind a large answer; on lane 0 a CREDIT message behind each
# UNREAD_STEP_BYTES or READ_STEP_MESSAGES. So a caller that reads costs less than 1 MiB of answers
# here. The message names an id below which the caller's calls are over, except for a few that it
# lists. So a request that is sent twice does not run twice, and not all ids need to be remembered.
#
# A caller that does not read has so many answers kept at most, and so many bytes for each lane.
MAX_ANSWERS: Final = 1024
MAX_BYTES: Final = 4 << 20
# The most ids of answered calls that are remembered for a caller that acknowledges nothing: more
# than may be under way at once (Limits.outstanding_calls), so no caller that reads comes so far.
MAX_IDS: Final = 128 << 10

# Note [Answers that are not read]
# An answer is never held back: two workers that both waited for room would wait forever. So the
# memory of answers to a slow caller is bounded by delaying its next calls: a caller acknowledges
# the answers that it has read on its lane 0, which uses none of its users' threads. Answers on a
# connection that has ended are not counted any more.
_LEAST_UNREAD_BYTES: Final = 8 * UNREAD_STEP_BYTES


class Request(Protocol):
    """A call that came in; `deadline` is until when it is wanted."""

    deadline: float | None


class CallerLane:
    """One lane of one caller, through all of its connections; `route` is the present one.

    Thread  accept_request and a change of route: the leader; everything else: any
    """

    def __init__(
        self, caller: Worker, number: int, max_unread_bytes: int = DEFAULT.outstanding_bytes
    ) -> None:
        self.caller = caller
        self.number = number
        self.route: Route = b""
        self.last_greeting = 0
        # Guards all below it. An id is in one of the next two before it leaves _running, so that
        # the leader may look for it without the lock.
        self._lock = threading.RLock()
        self._running: dict[int, Request] = {}
        self._answers: dict[int, Sequence[Buffer]] = {}
        # Answered calls whose answers are not kept: they were dropped, or their frames beyond the
        # first are memory that others may change.
        self._over: dict[int, None] = {}
        self._bytes = 0
        # On lane 0 a call with an id below this is over, unless it is open: it may yet come.
        self._floor = 0
        self._open: set[int] = set()
        self._latest = -1
        # See Note [Answers that are not read]; over_unread_limit is looked at without the lock.
        self._max_unread = max(max_unread_bytes, _LEAST_UNREAD_BYTES)
        self._unread = 0
        self.over_unread_limit = False
        self._held: list[Request] = []

    def accept_request(self, call_id: int, request: Request) -> bool:
        """Take note of a request; False if it came before."""
        if call_id in self._running or call_id in self._answers:
            return False
        if self.number:
            # Ids on the lane of a blocking caller grow.
            if call_id <= self._latest:
                return False
        elif call_id in self._over or (call_id < self._floor and call_id not in self._open):
            return False
        self._running[call_id] = request
        self._latest = call_id
        return True

    def answered(self, call_id: int, frames: Sequence[Buffer], size_bytes: int) -> Route:
        """Keep the answer to a call, and return the route by which it must leave now."""
        with self._lock:
            if self.number == 0:
                self._unread += size_bytes
                self.over_unread_limit = self.over_unread_limit or self._unread > self._max_unread
                self._keep(call_id, frames, size_bytes)
            elif call_id == self._latest:
                # The next call has arrived, which acknowledges the answer to the last one.
                is_kept = len(frames) == 1 and size_bytes <= MAX_BYTES
                self._answers = {call_id: frames} if is_kept else {}
                self._bytes = size_bytes if is_kept else 0
            # Else its caller has given it up, and waits for the answer to a later call.
            self._running.pop(call_id, None)
            return self.route

    def _keep(self, call_id: int, frames: Sequence[Buffer], size_bytes: int) -> None:
        # The caller does not ask about a call that it has given up.
        is_wanted = call_id >= self._floor or call_id in self._open
        if is_wanted and len(frames) == 1 and size_bytes <= MAX_BYTES:
            self._answers[call_id] = frames
            self._bytes += size_bytes
        else:
            self._over[call_id] = None
        self._open.discard(call_id)
        if len(self._answers) > MAX_ANSWERS or self._bytes > MAX_BYTES or len(self._over) > MAX_IDS:
            self._forget_some()

    def hold(self, request: Request) -> bool:
        """Keep a call that must not begin while so many answers are not read; False if it may."""
        with self._lock:
            if self.over_unread_limit:
                self._held.append(request)
            return self.over_unread_limit

    def num_held(self) -> int:
        """Return how many calls wait until answers are read."""
        return len(self._held)

    def acknowledge(self, size_bytes: int) -> list[Request]:
        """Count answers as read, and return the calls that may begin now."""
        with self._lock:
            self._unread = max(0, self._unread - size_bytes)
            # Not at the first byte of room: they would be held again one after the other.
            return self._take_held() if self._unread <= self._max_unread // 2 else []

    def forget_below(self, floor: int, still_open: Collection[int]) -> None:
        """Forget the answers to calls below floor, which the caller has read, but for those that
        are still open there; what was over stays over.
        """
        with self._lock:
            if floor < self._floor:
                return  # a later one was faster, or this comes again
            for call_id in [one for one in self._answers if one < floor and one not in still_open]:
                self._forget(call_id)
            self._open = {
                one
                for one in still_open
                if (one >= self._floor or one in self._open)
                and one not in self._answers
                and one not in self._over
            }
            self._floor = floor
            self._over = {one: None for one in self._over if one >= floor}

    def rebind(self, route: Route) -> list[Request]:
        """Take a new connection, and return the calls that may begin now."""
        with self._lock:
            self.route = route
            self._unread = 0
            return self._take_held()

    def release_held(self) -> list[Request]:
        """Hold back nothing any more, for the caller has gone; return the calls that waited."""
        with self._lock:
            self._max_unread = sys.maxsize
            return self._take_held()

    def _take_held(self) -> list[Request]:
        self.over_unread_limit = False
        held, self._held = self._held, []
        return held

    def ended_unanswered(self, call_id: int) -> None:
        """Let a call be over that its caller has given up; it is not run if it comes again."""
        with self._lock:
            if call_id not in self._running:
                return
            if self.number == 0:
                self._over[call_id] = None
                self._open.discard(call_id)
            del self._running[call_id]

    def running(self, call_id: int) -> Request | None:
        """Return a call that has come and is not answered yet."""
        return self._running.get(call_id)

    def reconcile(self, call_ids: Iterable[int]) -> Reconciliation:
        """Return the state of calls that may have come by this lane."""
        result = Reconciliation([], [], [])
        with self._lock:
            for call_id in call_ids:
                if call_id in self._running:
                    continue
                answer = self._answers.get(call_id)
                if answer is not None:
                    result.answers.append(answer)
                elif self._is_over(call_id):
                    result.answered_before.append(call_id)
                else:
                    result.never_received.append(call_id)
        return result

    def _is_over(self, call_id: int) -> bool:
        """Return whether a call that does not run was answered, or given up by its caller."""
        if self.number:
            # Ids on the lane of a blocking caller grow.
            return call_id <= self._latest
        is_below = call_id < self._floor and call_id not in self._open
        return is_below or call_id in self._over

    def _forget_some(self) -> None:
        while len(self._answers) > MAX_ANSWERS or self._bytes > MAX_BYTES:
            self._forget(next(iter(self._answers)))
        if len(self._over) > MAX_IDS:
            # Ids on the shared lane grow, near enough: one below this that is not known may have
            # been answered, and is not run again for safety's sake.
            middle = sorted(self._over)[MAX_IDS // 2]
            self._floor = max(self._floor, middle)
            self._over = {one: None for one in self._over if one >= middle}

    def _forget(self, call_id: int) -> None:
        if self.number == 0 and call_id >= self._floor:
            self._over[call_id] = None  # first: the leader looks without the lock
        self._bytes -= sum(map(len, self._answers.pop(call_id)))


class Callers:
    """Lanes of callers, by the connection that each has now; of one caller, as many as its limits
    let it have.

    `released` has calls that were held back, and may begin: see Note [Answers that are not read].
    The pool's leader takes them.

    Thread  greeted: the leader; everything else: any
    """

    def __init__(self, listener: Listener, me: Record) -> None:
        self.me = me
        self._listener = listener
        # Guards the two below it; a look-up by route reads one entry.
        self._lock = threading.RLock()
        self.by_route: dict[Route, CallerLane] = {}
        self._lanes: dict[Worker, dict[int, CallerLane]] = {}  # by their numbers
        self._forget_at = 0  # see _forget_ended
        self.released: deque[Request] = deque()

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
        if known is not None:
            last = known.last_greeting
            if count < last or count == last > 0:
                return  # of an earlier connection, or it comes twice
            if known.route != route and caller.lender is not None:
                # Answers on their way by the connection before are lost, with what they lent.
                caller.lender.connection_broke()
        with self._lock:
            if route not in self.by_route:
                self._forget_ended()
            lanes = self._lanes.setdefault(caller, {})
            lane = lanes.get(number)
            if lane is None:
                lane = lanes[number] = CallerLane(caller, number, limits.outstanding_bytes)
            lane.last_greeting = count
            # The rest of the lane's earlier connection is not read any more.
            self.by_route.pop(lane.route, None)
            self.by_route[route] = lane
            self.released.extend(lane.rebind(route))

    def forget(self, caller: Worker, refusal: FastdistError | None = None) -> None:
        """Accept no more requests from a worker that is lost or has left, and send it a refusal; a
        worker that has its rank now is accepted.

        Note    a worker that was only cut off gets it at once, by a connection that still holds;
                others when they greet again
        """
        routes = self._forget([caller], are_wanted=True)
        if refusal is not None:
            self.refuse(routes, refusal)

    def fence(self, refusal: FastdistError) -> None:
        """Run nothing more for anybody who has greeted so far, and tell all of them why.

        Note    who greets from here on is not admitted
        """
        self.refuse(self._forget(list(self._lanes), are_wanted=False), refusal)

    def _forget_ended(self) -> None:
        """Forget connections that have ended, whenever there are twice as many as were left the
        last time, so that n of them cost O(n) in all.
        """
        if len(self.by_route) < self._forget_at:
            return
        for old in [old for old in self.by_route if not self._listener.knows(old)]:
            del self.by_route[old]
        self._forget_at = 2 * len(self.by_route)

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
        for request in [request for lane in lanes for request in lane.release_held()]:
            if not are_wanted:
                request.deadline = 0.0  # as where its caller has given it up
            self.released.append(request)
        if self.released:
            self._listener.wake()
        return routes
