"""Who calls this worker: the connections that have greeted, their lanes, and the calls of these."""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from fastdist.core.errors import FastdistError, RpcError
from fastdist.distributed.pipe.frames import Buffer
from fastdist.distributed.pipe.listener import Listener, Route

from ..message.limits import DEFAULT
from ..message.remote_errors import pack_error
from .inquiry import UNREAD_STEP_BYTES, Findings
from .record import Record
from .worker import Worker

# Note [Lanes of callers]
# A lane outlives its connections. A caller whose connection broke greets again on the next one and
# asks about the calls that it still waits for. What came by the earlier connection is read no more
# from then on, so the answer to that question is final: a call runs, or was answered (and its
# answer, kept here, is sent again), or never came and may be sent again under the same id.

# Answers of asynchronous calls that are kept. Who blocks has one call at a time on its lane, and
# with its next one the answer to the last is known to have come.
MAX_ANSWERS: Final = 1024
MAX_BYTES: Final = 4 << 20

# Note [Answers that are not read]
# An answer is never held back: two workers that both waited for room would wait for ever. So what
# bounds the memory that answers to a slow caller take here is that its next calls do not begin: a
# caller says, for each MiB, that its lane 0 was read, which takes none of its users' threads. What
# was sent by a connection that has gone is not counted any more.
_LEAST_UNREAD_BYTES: Final = 4 * UNREAD_STEP_BYTES


class Request(Protocol):
    """A call that came in; `deadline` is until when it is wanted."""

    deadline: float | None


class CallerLane:
    """One lane of one caller, through all of its connections; `route` is the present one.

    Thread  came and a change of route: the leader; everything else: any
    """

    def __init__(
        self, caller: Worker, number: int, max_unread_bytes: int = DEFAULT.outstanding_bytes
    ) -> None:
        self.caller = caller
        self.number = number
        self.route: Route = b""
        self.last_greeting = 0
        self._max_answers = 1 if number else MAX_ANSWERS
        # Guards all below it. An id is in _answers before it leaves _running, so that the leader
        # may look for it without the lock.
        self._lock = threading.Lock()
        self._running: dict[int, Request] = {}
        # None for what is not kept: frames beyond the first are memory that others may change.
        self._answers: dict[int, Sequence[Buffer] | None] = {}
        self._bytes = 0
        self._forgotten_up_to = -1
        self._latest = -1
        # See Note [Answers that are not read]; is_full is looked at without the lock.
        self._max_unread = max(max_unread_bytes, _LEAST_UNREAD_BYTES)
        self._unread = 0
        self.is_full = False
        self._held: list[Request] = []

    def came(self, call_id: int, request: Request) -> bool:
        """Take note of a request; False if it came before."""
        if call_id in self._running or call_id in self._answers:
            return False
        if self.number and call_id <= self._latest:
            # The ids of a lane of its own grow: it was answered, and that is not kept any more.
            return False
        self._running[call_id] = request
        self._latest = call_id
        return True

    def answered(self, call_id: int, frames: Sequence[Buffer], size_bytes: int) -> Route:
        """Keep the answer to a call, and return the route by which it must leave now."""
        with self._lock:
            if self.number == 0:
                self._unread += size_bytes
                self.is_full = self.is_full or self._unread > self._max_unread
            elif call_id != self._latest:
                # Its caller has given it up, and waits for the answer to a later call.
                self._running.pop(call_id, None)
                return self.route
            if len(frames) == 1 and size_bytes <= MAX_BYTES:
                self._answers[call_id] = frames
                self._bytes += size_bytes
            else:
                self._answers[call_id] = None
            self._running.pop(call_id, None)
            self._forget_some()
            return self.route

    def hold(self, request: Request) -> bool:
        """Keep a call that must not begin while so many answers are not read; False if it may."""
        with self._lock:
            if self.is_full:
                self._held.append(request)
            return self.is_full

    def num_held(self) -> int:
        """Return how many calls wait until answers are read."""
        return len(self._held)

    def were_read(self, size_bytes: int) -> list[Request]:
        """Count answers as read, and return the calls that may begin now."""
        with self._lock:
            self._unread = max(0, self._unread - size_bytes)
            # Not at the first byte of room: they would be held again one after the other.
            return self._let_go() if self._unread <= self._max_unread // 2 else []

    def moved_to(self, route: Route) -> list[Request]:
        """Take a new connection, and return the calls that may begin now."""
        with self._lock:
            self.route = route
            self._unread = 0
            return self._let_go()

    def end(self) -> list[Request]:
        """Hold back nothing any more, for the caller has gone; return the calls that waited."""
        with self._lock:
            self._max_unread = sys.maxsize
            return self._let_go()

    def _let_go(self) -> list[Request]:
        self.is_full = False
        held, self._held = self._held, []
        return held

    def ended_unanswered(self, call_id: int) -> None:
        """Let a call be over that its caller has given up; it is not run if it comes again."""
        with self._lock:
            if self._running.pop(call_id, None) is not None and self.number == 0:
                self._answers[call_id] = None
                self._forget_some()

    def running(self, call_id: int) -> Request | None:
        """Return a call that has come and is not answered yet."""
        return self._running.get(call_id)

    def look_for(self, call_ids: Iterable[int]) -> Findings:
        """Return what became of calls that came by this lane, if they came."""
        findings = Findings([], [], [])
        with self._lock:
            for call_id in call_ids:
                if call_id in self._running:
                    continue
                answer = self._answers.get(call_id)
                if answer is not None:
                    findings.answers.append(answer)
                elif call_id in self._answers or call_id <= self._forgotten_up_to:
                    findings.answered_before.append(call_id)
                else:
                    findings.never_came.append(call_id)
        return findings

    def _forget_some(self) -> None:
        while len(self._answers) > self._max_answers or self._bytes > MAX_BYTES:
            call_id = next(iter(self._answers))
            frames = self._answers.pop(call_id)
            if frames is not None:
                self._bytes -= sum([len(frame) for frame in frames])
            if self.number == 0:
                # Ids on the shared lane grow, near enough: one below this that is not known may
                # have been answered, and is not run again for safety's sake.
                self._forgotten_up_to = max(self._forgotten_up_to, call_id)


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
