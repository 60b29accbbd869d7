"""The barrier before a graceful shutdown: rounds until no call is under way anywhere."""

# All members report to a leader, the lowest rank that lives, how many calls they have under way.
# When all living members have reported a round the leader answers them with the sum. Rounds go on
# until the sum is 0, so that nested and follow-up calls end; then one more round, so that nobody
# closes while another still waits for the last answer. A member that dies is not waited for; if it
# was the leader, the next rank takes over, and those who are rounds ahead count as having come.

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fastdist.core.errors import RpcError, RpcTimeoutError, ShutdownIncomplete, WorkerLostError
from fastdist.core.future import Future

from .constants import SHUTDOWN_TIMEOUT_S
from .handlers import Reply, register_handler, unregister_handler
from .interceptors import Envelope
from .membership import WorkerInfo
from .message_types import MessageType
from .metrics import CallCounts

if TYPE_CHECKING:
    from .agent import RpcAgent

_NOBODY = "nobody, all are there, but calls are still under way"
_ASK_WHO_S = 1.0


class ShutdownBarrier:
    """This worker's part in the barrier, as a member and, if it comes to that, as leader.

    `watch_over(worker_id)` makes sure that the death of a worker is noticed.

    Thread  any
    """

    def __init__(
        self, agent: RpcAgent, counts: CallCounts, watch_over: Callable[[int], object]
    ) -> None:
        self._agent = agent
        self._counts = counts
        self._watch_over = watch_over
        self._round = 0
        # Guards the two below it. Futures are completed outside.
        self._lock = threading.Lock()
        self._reported: dict[int, tuple[int, int]] = {}  # rank -> (round, calls under way)
        self._waiting: list[tuple[int, Future[Reply]]] = []  # (round, who waits for its sum)

    def register(self) -> None:
        """Take part from now on."""
        register_handler(MessageType.SHUTDOWN_BARRIER_REQ, self._report_came)
        self._agent.add_lost_callback(self._member_lost)

    def unregister(self) -> None:
        """Take part no more."""
        unregister_handler(MessageType.SHUTDOWN_BARRIER_REQ)

    def wait(self, timeout_s: float) -> None:
        """Go through rounds until nothing is under way anywhere, then through one more.

        Without a timeout (0) the first round takes as long as the other members live and do not
        come: a worker that only serves may wait here for the end of the job.

        Raises  ShutdownIncomplete naming the members that did not come in time
        """
        if timeout_s == 0:
            self._counts.wait_for_own_calls(None)
            self._round += 1
            self._one_round(math.inf, timeout_s)
            timeout_s = SHUTDOWN_TIMEOUT_S
        deadline = time.monotonic() + timeout_s
        rounds_at_zero = 0
        while rounds_at_zero < 2:
            if not self._counts.wait_for_own_calls(max(0.0, deadline - time.monotonic())):
                raise ShutdownIncomplete(
                    f"worker {self._agent.get_worker_info().name!r} still waits for answers to its "
                    f"own calls after {timeout_s:g} s"
                )
            self._round += 1
            under_way = self._one_round(deadline, timeout_s)
            rounds_at_zero = rounds_at_zero + 1 if under_way == 0 else 0

    def _one_round(self, deadline: float, timeout_s: float) -> int:
        while True:
            leader = self._leader()
            left_s = 0.0 if deadline == math.inf else max(0.01, deadline - time.monotonic())
            metadata = {"round": self._round, "under_way": self._counts.active()}
            try:
                reply = self._agent.send(
                    leader.id, MessageType.SHUTDOWN_BARRIER_REQ, (), metadata, left_s
                ).wait()
            except RpcTimeoutError:
                raise ShutdownIncomplete(
                    f"not all workers reached the shutdown barrier within {timeout_s:g} s; "
                    f"missing: {self._who_is_missing(leader)}"
                ) from None
            except WorkerLostError:
                if leader.id == self._agent.get_worker_info().id:
                    raise
                continue
            return int(reply.metadata["under_way"])  # type: ignore[arg-type]

    def _leader(self) -> WorkerInfo:
        agent = self._agent
        return next(info for info in agent.get_worker_infos() if not agent.is_dead(info.id))

    def _who_is_missing(self, leader: WorkerInfo) -> str:
        try:
            metadata = {"round": self._round, "only_asks": True}
            reply = self._agent.send(
                leader.id, MessageType.SHUTDOWN_BARRIER_REQ, (), metadata, _ASK_WHO_S
            ).wait()
        except RpcError:
            return f"{leader.name} (which leads the barrier, and does not answer)"
        return str(reply.metadata["missing"])

    def _report_came(self, request: Envelope) -> Reply | Future[Reply]:
        round_number = int(request.metadata["round"])  # type: ignore[arg-type]
        if request.metadata.get("only_asks"):
            return Reply([], {"missing": ", ".join(self._missing(round_number)) or _NOBODY})
        # The leader must see members die that it never spoke with.
        for info in self._agent.get_worker_infos():
            if not self._agent.is_dead(info.id):
                self._watch_over(info.id)
        answer: Future[Reply] = Future()
        with self._lock:
            under_way = int(request.metadata["under_way"])  # type: ignore[arg-type]
            self._reported[request.peer] = (round_number, under_way)
            self._waiting.append((round_number, answer))
        self._answer_full_rounds()
        return answer

    def _member_lost(self, member: WorkerInfo) -> None:
        self._answer_full_rounds()

    def _answer_full_rounds(self) -> None:
        living = [
            info.id for info in self._agent.get_worker_infos() if not self._agent.is_dead(info.id)
        ]
        answers: list[Future[Reply]] = []
        with self._lock:
            reached = min((self._reported.get(rank, (0, 0))[0] for rank in living), default=0)
            under_way = sum(self._reported.get(rank, (0, 0))[1] for rank in living)
            answers = [answer for number, answer in self._waiting if number <= reached]
            self._waiting = [pair for pair in self._waiting if pair[0] > reached]
        for answer in answers:
            answer.try_complete(Reply([], {"under_way": under_way}))

    def _missing(self, round_number: int) -> list[str]:
        with self._lock:
            reported: dict[int, Any] = dict(self._reported)
        return [
            info.name
            for info in self._agent.get_worker_infos()
            if not self._agent.is_dead(info.id) and reported.get(info.id, (0, 0))[0] < round_number
        ]
