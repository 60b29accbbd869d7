"""The barrier before a graceful shutdown: rounds until no call is under way anywhere."""

# All members report to a leader, the lowest rank that lives, how many calls they have under way and
# how many they have had. When all living members have reported a round the leader answers them with
# the sums. All is over when two rounds in a row find nothing under way and no call begun between
# them: then there was a moment, after all reports of the one and before all of the other, when no
# member had a call and no message could still cause one (but for a request that its caller has
# given up, which may run for nobody). A member that dies is not waited for; if it was the leader,
# the next rank takes over, and those who are rounds ahead count as having come.

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from fastdist.core.errors import (
    RpcError,
    RpcNotRunningError,
    RpcTimeoutError,
    ShutdownIncomplete,
    WorkerLostError,
)
from fastdist.core.future import Future

from .constants import SHUTDOWN_TIMEOUT_S
from .handlers import Reply, register_handler, unregister_handler
from .interceptors import Envelope
from .membership import WorkerInfo
from .message_types import MessageType
from .metrics import CallCounts
from .words import flag, number, text

if TYPE_CHECKING:
    from fastdist.distributed.pipe.metadata import Value

    from .agent import RpcAgent

_ASK_WHO_S = 1.0
# A member with calls under way holds up its next report for so long, unless they end, so that
# rounds do not chase each other while a long call runs.
_HOLD_UP_S = 0.2
# Members of one timeout that came here one after the other give up so much apart, at most.
_LATE_S = 1.0
# Who has come here lives: its last report may be late by as much as a busy machine holds it up.
_HELD_UP_S = 3.0


class _Verdict(NamedTuple):
    """What a leader answers to all who have reported a round."""

    under_way: int
    begun: int
    busy: str
    somebody_gives_up: bool
    is_over: bool = False


class _Report(NamedTuple):
    """What a member last said."""

    round_number: int = 0
    under_way: int = 0
    begun: int = 0
    gives_up: bool = False


class ShutdownBarrier:
    """This worker's part in the barrier, as a member and, if it comes to that, as leader.

    `watch_over(worker_id)` makes sure that the death of a worker is noticed; `absent()` returns who
    has not come, by another way than through the leader.

    Thread  any
    """

    def __init__(
        self,
        agent: RpcAgent,
        counts: CallCounts,
        watch_over: Callable[[int], object],
        absent: Callable[[], list[str]] = list,
    ) -> None:
        self._agent = agent
        self._counts = counts
        self._watch_over = watch_over
        self._absent = absent
        self._round = 0
        # Guards the two below it. Futures are completed outside.
        self._lock = threading.Lock()
        self._reported: dict[int, _Report] = {}
        self._waiting: list[tuple[int, Future[Reply]]] = []  # (round, who waits for its sum)

    def register(self) -> None:
        """Take part from now on."""
        register_handler(MessageType.SHUTDOWN_BARRIER_REQ, self._report_came)
        self._agent.add_lost_callback(self._member_lost)

    def unregister(self) -> None:
        """Take part no more."""
        unregister_handler(MessageType.SHUTDOWN_BARRIER_REQ)

    def wait(self, timeout_s: float) -> None:
        """Go through rounds until nothing is under way anywhere.

        Without a timeout (0) the first round takes as long as the other members live and do not
        come: a worker that only serves may wait here for the end of the job. What is under way then
        has the default time.

        Raises  ShutdownIncomplete naming the members that did not come, or have calls under way
        """
        if timeout_s:
            deadline = time.monotonic() + timeout_s
            self._counts.wait_for_own_calls(timeout_s)
            verdict = self._one_round(deadline, timeout_s)
        else:
            self._counts.wait_for_own_calls(None)
            verdict = self._one_round(math.inf, timeout_s)
            timeout_s = SHUTDOWN_TIMEOUT_S
            deadline = time.monotonic() + timeout_s
        while not verdict.is_over:
            before = verdict
            self._counts.wait_until_idle(min(_HOLD_UP_S, max(0.0, deadline - time.monotonic())))
            verdict = self._one_round(deadline, timeout_s, before)
            if before.under_way == verdict.under_way == 0 and before.begun == verdict.begun:
                return
            self._require_time_left(deadline, timeout_s, verdict, before)

    def _require_time_left(
        self, deadline: float, timeout_s: float, verdict: _Verdict, before: _Verdict
    ) -> None:
        # Members with about the same deadline give up in the same round, so that all tell the same:
        # who goes first would take its calls out of the sum that the others get next. So nobody
        # goes whose report has not announced it, though its time ran out since.
        left_s = deadline - time.monotonic()
        if not verdict.is_over and verdict.somebody_gives_up and left_s < _LATE_S:
            # Who was busy may have given up meanwhile, and have left.
            raise _too_busy(verdict.busy or before.busy, timeout_s)

    def _one_round(
        self, deadline: float, timeout_s: float, before: _Verdict | None = None
    ) -> _Verdict:
        """Report once more, and return what the leader answers; `before` is what it said last."""
        self._round += 1
        late_s = _LATE_S if before is None else _HELD_UP_S
        while True:
            leader = self._leader()
            left_s = deadline - time.monotonic()
            under_way, begun = self._counts.activity()
            metadata: dict[str, Value] = {
                "round": self._round,
                "under_way": under_way,
                "begun": begun,
                "gives_up": left_s <= 0,
            }
            # The others may come to their last round a little later than this worker.
            patience_s = 0.0 if deadline == math.inf else max(0.0, left_s) + late_s
            try:
                reply = self._agent.send(
                    leader.id, MessageType.SHUTDOWN_BARRIER_REQ, (), metadata, patience_s
                ).wait()
            except RpcTimeoutError:
                raise self._explain(leader, timeout_s, before) from None
            except WorkerLostError:
                if leader.id == self._agent.get_worker_info().id:
                    raise
                continue
            except RpcNotRunningError:
                # The leader has heard the end from an earlier one, which left before we heard it.
                return _Verdict(0, 0, "", somebody_gives_up=False, is_over=True)
            words = reply.metadata
            return _Verdict(
                number(words, "under_way", leader.id),
                number(words, "begun", leader.id),
                text(words, "busy", leader.id),
                flag(words, "somebody_gives_up", leader.id),
                flag(words, "is_over", leader.id),
            )

    def _leader(self) -> WorkerInfo:
        agent = self._agent
        living = (info for info in agent.get_worker_infos() if not agent.is_dead(info.id))
        # Of a worker that was given up nobody is left, itself included: then a call says why.
        return next(living, agent.get_worker_info())

    def _explain(
        self, leader: WorkerInfo, timeout_s: float, before: _Verdict | None
    ) -> ShutdownIncomplete:
        if before is not None and before.busy:
            # The others may have given up for that, and have left.
            return _too_busy(before.busy, timeout_s)
        metadata = {"round": self._round, "only_asks": True}
        try:
            reply = self._agent.send(
                leader.id, MessageType.SHUTDOWN_BARRIER_REQ, (), metadata, _ASK_WHO_S
            ).wait()
            missing = text(reply.metadata, "missing", leader.id)
            busy = text(reply.metadata, "busy", leader.id)
        except RpcError:
            others = [name for name in self._absent() if name != leader.name]
            missing = ", ".join(
                [f"{leader.name} (which leads the barrier, and does not answer)", *others]
            )
        if not missing:
            return _too_busy(busy, timeout_s)
        if before is not None:
            return ShutdownIncomplete(
                f"all workers have reached the shutdown barrier, but not all answered there until "
                f"its end, within {timeout_s:g} s; missing: {missing}"
            )
        return ShutdownIncomplete(
            f"not all workers reached the shutdown barrier within {timeout_s:g} s; "
            f"missing: {missing}"
        )

    def _report_came(self, request: Envelope) -> Reply | Future[Reply]:
        round_number = number(request.metadata, "round", request.peer)
        if request.metadata.get("only_asks"):
            return self._tell_who_is_missing(round_number)
        # The leader must see members die that it never spoke with.
        for info in self._agent.get_worker_infos():
            if not self._agent.is_dead(info.id):
                self._watch_over(info.id)
        answer: Future[Reply] = Future()
        report = _Report(
            round_number,
            number(request.metadata, "under_way", request.peer),
            number(request.metadata, "begun", request.peer),
            flag(request.metadata, "gives_up", request.peer),
        )
        with self._lock:
            self._reported[request.peer] = report
            self._waiting.append((round_number, answer))
        self._answer_full_rounds()
        return answer

    def _member_lost(self, member: WorkerInfo) -> None:
        self._answer_full_rounds()

    def _answer_full_rounds(self) -> None:
        with self._lock:
            if not self._waiting:
                return
            reports = self._living_reports()
            reached = min((report.round_number for report in reports.values()), default=0)
            answers = [answer for of, answer in self._waiting if of <= reached]
            self._waiting = [pair for pair in self._waiting if pair[0] > reached]
        verdict = _Verdict(
            under_way=sum(report.under_way for report in reports.values()),
            begun=sum(report.begun for report in reports.values()),
            busy=_busy(reports),
            somebody_gives_up=any(report.gives_up for report in reports.values()),
        )
        for answer in answers:
            answer.try_complete(Reply([], dict(verdict._asdict())))

    def _tell_who_is_missing(self, asked: int) -> Reply:
        with self._lock:
            reports = self._living_reports()
        missing = [name for name, report in reports.items() if report.round_number < asked]
        return Reply([], {"missing": ", ".join(missing), "busy": _busy(reports)})

    def _living_reports(self) -> dict[str, _Report]:
        infos = self._agent.get_worker_infos()
        living = [info for info in infos if not self._agent.is_dead(info.id)]
        return {info.name: self._reported.get(info.id, _Report()) for info in living}


def _busy(reports: Mapping[str, _Report]) -> str:
    return ", ".join(
        f"{report.under_way} at {name!r}" for name, report in reports.items() if report.under_way
    )


def _too_busy(busy: str, timeout_s: float) -> ShutdownIncomplete:
    return ShutdownIncomplete(
        f"all workers have reached the shutdown barrier, but calls are still under way after "
        f"{timeout_s:g} s: {busy or 'new ones begin all the time'}"
    )
