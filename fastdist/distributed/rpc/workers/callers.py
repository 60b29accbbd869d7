"""The callers of this worker, with their connections, their lanes, and their calls."""

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
# A lane outlives its connections. If a connection breaks, the caller sends a greeting on the lane's
# next connection, and queries the state of the calls that still wait for answers. After the
# greeting this worker reads no messages of the earlier connection, so its answer to the query is
# final. If a call still runs, the caller waits. If a call was answered, this worker sends the kept
# answer again. If a call never arrived, the caller may send it again with the same id.

# Note [Answers that are kept]
# This worker keeps an answer until the caller acknowledges it. On the lane of a blocking caller,
# the next call acknowledges the answer; a large answer is acknowledged by a CREDIT message. On lane
# 0 the caller sends a CREDIT message whenever it has read UNREAD_STEP_BYTES bytes or
# READ_STEP_MESSAGES messages. So the kept answers for a caller that reads take less than 1 MiB
# here. A CREDIT message contains an id, the floor. Calls with lower ids are over, except for a few
# that the message lists. So this worker recognises a request that is sent twice, and does not need
# to remember the ids of all calls.
#
# The most answers, and the most bytes of answers, that are kept for one lane of a caller that does
# not acknowledge them.
MAX_ANSWERS: Final = 1024
MAX_BYTES: Final = 4 << 20
# The most ids of answered calls that are remembered for a caller that acknowledges nothing. This is
# more than the calls that may be in flight (Limits.outstanding_calls), so a caller that reads its
# answers never reaches the limit.
MAX_IDS: Final = 128 << 10

# Note [Answers that are not read]
# An answer is never delayed. If each of two workers delayed its answers until the other had read
# earlier ones, both could wait forever. Instead, this worker limits the memory for unread answers
# by delaying the next calls of a slow caller. A caller acknowledges answers when they have been
# read from its lane 0; no thread of its users is needed for that. Answers that were sent on an
# ended connection do not count as unread.
_LEAST_UNREAD_BYTES: Final = 8 * UNREAD_STEP_BYTES


class Request(Protocol):
    """A call that was received; its caller waits until `deadline`."""

    deadline: float | None


class CallerLane:
    """One lane of one caller, across all its connections; `route` is the present connection.

    Thread  accept_request and a change of route: the pool's leader; everything else: any
    """

    def __init__(
        self, caller: Worker, number: int, max_unread_bytes: int = DEFAULT.outstanding_bytes
    ) -> None:
        self.caller = caller
        self.number = number
        self.route: Route = b""
        self.last_greeting = 0
        # Guards all attributes below. An id is added to _answers or _over before it is removed from
        # _running, so that the pool's leader finds each id although it does not take the lock.
        self._lock = threading.RLock()
        self._running: dict[int, Request] = {}
        self._answers: dict[int, Sequence[Buffer]] = {}
        # Ids of calls that are over and have no kept answer. An answer is not kept if the limits
        # are exceeded, or if it has further frames: these are memory that other code may change.
        self._over: dict[int, None] = {}
        self._bytes = 0
        # On lane 0 a call with an id below _floor is over, unless its id is in _open: a call whose
        # id is in _open may still arrive.
        self._floor = 0
        self._open: set[int] = set()
        self._latest = -1
        # See Note [Answers that are not read]; over_unread_limit is read without the lock.
        self._max_unread = max(max_unread_bytes, _LEAST_UNREAD_BYTES)
        self._unread = 0
        self.over_unread_limit = False
        self._held: list[Request] = []

    def accept_request(self, call_id: int, request: Request) -> bool:
        """Record a request; return False if it was received before."""
        if call_id in self._running or call_id in self._answers:
            return False
        if self.number:
            # Ids on the lane of a blocking caller increase.
            if call_id <= self._latest:
                return False
        elif call_id in self._over or (call_id < self._floor and call_id not in self._open):
            return False
        self._running[call_id] = request
        self._latest = call_id
        return True

    def answered(self, call_id: int, frames: Sequence[Buffer], size_bytes: int) -> Route:
        """Keep the answer to a call, and return the route by which to send it."""
        with self._lock:
            if self.number == 0:
                self._unread += size_bytes
                self.over_unread_limit = self.over_unread_limit or self._unread > self._max_unread
                self._keep(call_id, frames, size_bytes)
            elif call_id == self._latest:
                # The arrival of this call has acknowledged the answer to the previous call.
                is_kept = len(frames) == 1 and size_bytes <= MAX_BYTES
                self._answers = {call_id: frames} if is_kept else {}
                self._bytes = size_bytes if is_kept else 0
            # Otherwise the caller has given up this call, and waits for the answer to a later call.
            self._running.pop(call_id, None)
            return self.route

    def _keep(self, call_id: int, frames: Sequence[Buffer], size_bytes: int) -> None:
        # A call below the floor that is not open was given up: the caller does not query its state.
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
        """Hold a call back while too many answers are unread; return False if it may begin."""
        with self._lock:
            if self.over_unread_limit:
                self._held.append(request)
            return self.over_unread_limit

    def num_held(self) -> int:
        """Return how many calls are held back."""
        return len(self._held)

    def acknowledge(self, size_bytes: int) -> list[Request]:
        """Count answers as read, and return the calls that may begin now."""
        with self._lock:
            self._unread = max(0, self._unread - size_bytes)
            # Release the held calls only at half of the limit. Calls that were released just below
            # the limit would soon be held again.
            return self._take_held() if self._unread <= self._max_unread // 2 else []

    def forget_below(self, floor: int, still_open: Collection[int]) -> None:
        """Drop the answers to calls with ids below `floor`, which the caller has read.

        Answers to calls in `still_open` are kept. A call that is over does not become open again.
        """
        with self._lock:
            if floor < self._floor:
                return  # a later acknowledgement was processed first, or this is a duplicate
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
        """Set a new connection, and return the calls that may begin now."""
        with self._lock:
            self.route = route
            self._unread = 0
            return self._take_held()

    def release_held(self) -> list[Request]:
        """Release all held calls, because the caller has gone; hold no calls after that."""
        with self._lock:
            self._max_unread = sys.maxsize
            return self._take_held()

    def _take_held(self) -> list[Request]:
        self.over_unread_limit = False
        held, self._held = self._held, []
        return held

    def ended_unanswered(self, call_id: int) -> None:
        """Mark a call as over because its caller gave it up; a repeated request does not run."""
        with self._lock:
            if call_id not in self._running:
                return
            if self.number == 0:
                self._over[call_id] = None
                self._open.discard(call_id)
            del self._running[call_id]

    def running(self, call_id: int) -> Request | None:
        """Return a call that was received and is not answered yet, or None."""
        return self._running.get(call_id)

    def reconcile(self, call_ids: Iterable[int]) -> Reconciliation:
        """Return the state of calls that may have arrived on this lane."""
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
        """Return whether a call that is not running was answered, or was given up by its caller."""
        if self.number:
            # Ids on the lane of a blocking caller increase.
            return call_id <= self._latest
        is_below = call_id < self._floor and call_id not in self._open
        return is_below or call_id in self._over

    def _forget_some(self) -> None:
        while len(self._answers) > MAX_ANSWERS or self._bytes > MAX_BYTES:
            self._forget(next(iter(self._answers)))
        if len(self._over) > MAX_IDS:
            # Ids on the shared lane increase approximately. A call with an unknown id below
            # `middle` may have been answered, so a request with such an id does not run.
            middle = sorted(self._over)[MAX_IDS // 2]
            self._floor = max(self._floor, middle)
            self._over = {one: None for one in self._over if one >= middle}

    def _forget(self, call_id: int) -> None:
        if self.number == 0 and call_id >= self._floor:
            self._over[call_id] = None  # before the pop: the leader reads _over without the lock
        self._bytes -= sum(map(len, self._answers.pop(call_id)))


class Callers:
    """The lanes of all callers, by present connection; `me.limits` bounds each caller's lanes.

    `released` has the calls that were held back and may begin now. The leader of the thread pool
    takes them from there. See Note [Answers that are not read].

    Thread  greeted: the pool's leader; everything else: any
    """

    def __init__(self, listener: Listener, me: Record) -> None:
        self.me = me
        self._listener = listener
        # Guards _lanes and by_route. A look-up of one entry in by_route does not take the lock.
        self._lock = threading.RLock()
        self.by_route: dict[Route, CallerLane] = {}
        self._lanes: dict[Worker, dict[int, CallerLane]] = {}  # by lane number
        self._forget_at = 0  # see _forget_ended
        self.released: deque[Request] = deque()

    def num_held(self) -> int:
        """Return how many calls wait until their callers have read answers."""
        with self._lock:
            return sum(lane.num_held() for one in self._lanes.values() for lane in one.values())

    def greeted(self, caller: Worker, number: int, route: Route, count: int = 0) -> None:
        """Record a greeting on a connection: the first or a later greeting of a caller's lane.

        `count` numbers the greetings of a lane. After a later greeting, messages that still arrive
        on an earlier connection are not read.

        Raises  RpcError for a lane number above the caller's limit: each lane, and its last answer,
                is kept as long as the caller lives
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
                return  # from an earlier connection, or a duplicate
            if known.route != route and caller.lender is not None:
                # Answers on the previous connection may be lost: take back memory lent for them.
                caller.lender.connection_broke()
        with self._lock:
            if route not in self.by_route:
                self._forget_ended()
            lanes = self._lanes.setdefault(caller, {})
            lane = lanes.get(number)
            if lane is None:
                lane = lanes[number] = CallerLane(caller, number, limits.outstanding_bytes)
            lane.last_greeting = count
            # Further messages of the lane's earlier connection are not read.
            self.by_route.pop(lane.route, None)
            self.by_route[route] = lane
            self.released.extend(lane.rebind(route))

    def forget(self, caller: Worker, refusal: FastdistError | None = None) -> None:
        """Accept no more requests of a worker that is lost or has left, and send it a refusal.

        A later worker with its rank is accepted.

        Note    if the worker was only cut off, and its connection still holds, it gets the refusal
                on that connection; otherwise it gets the refusal when it greets again
        """
        routes = self._forget([caller], are_wanted=True)
        if refusal is not None:
            self.refuse(routes, refusal)

    def fence(self, refusal: FastdistError) -> None:
        """Run no more requests of the present callers, and send each of them the refusal.

        Note    new callers are not admitted after this
        """
        self.refuse(self._forget(list(self._lanes), are_wanted=False), refusal)

    def _forget_ended(self) -> None:
        """Forget ended connections if the table has twice as many entries as after the last sweep.

        So n connections cost O(n) in all.
        """
        if len(self.by_route) < self._forget_at:
            return
        for old in [old for old in self.by_route if not self._listener.knows(old)]:
            del self.by_route[old]
        self._forget_at = 2 * len(self.by_route)

    def refuse(self, routes: Sequence[Route], error: FastdistError) -> None:
        """Send an error to each route, as the last answer to its greeting."""
        refusal = pack_error(error, self.me.name).encode()
        for route in routes:
            self._listener.reply(route, refusal)

    def _forget(self, callers: Sequence[Worker], *, are_wanted: bool) -> list[Route]:
        """Remove callers, and return their connections.

        If `are_wanted`, the callers' held calls run; otherwise these calls end without running.
        """
        with self._lock:
            lanes = [lane for one in callers for lane in self._lanes.pop(one, {}).values()]
            routes = [lane.route for lane in lanes if self.by_route.pop(lane.route, None)]
        for request in [request for lane in lanes for request in lane.release_held()]:
            if not are_wanted:
                request.deadline = 0.0  # as for a call that its caller has given up
            self.released.append(request)
        if self.released:
            self._listener.wake()
        return routes
