"""The barrier at which the workers of a static group wait until no call is under way anywhere."""

# Note [The barrier of a shutdown]
# All members report to a leader, the lowest rank that lives, how many calls they have under way and
# how many they have had. When all living members have reported a round the leader answers them with
# the sums. All is over when two rounds in a row find nothing under way and no call begun between
# them: then there was a moment, after all reports of the one and before all of the other, when no
# member had a call and no message could still cause one (but for a request that its caller has
# given up, which may run for nobody). A member that dies is not waited for; if it was the leader,
# the next rank takes over, and those who are rounds ahead count as having come.
#
# Where lives are taken back, who was lost is waited for, until it is back and comes here or has had
# its time (`may_still_return`). One that is back may be the leader: so whoever hears of a return
# while it waits for an answer reports the same round once more, to whom it then takes for the
# leader.

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from fastdist.concurrency.future import Future, InternalFuture
from fastdist.core.errors import (
    RpcError,
    RpcNotRunningError,
    RpcTimeoutError,
    ShutdownIncomplete,
    WorkerLostError,
)
from fastdist.system.foreign_text import one_line

from . import constants
from .agent import RpcAgent
from .handlers import Reply, register_handler, unregister_handler
from .lost_workers import find_lost, lost_name, merge_lost, without
from .message.message import Message
from .message.metadata_fields import filled, number, text
from .message.types import MessageType
from .workers.latest import MOST_REMEMBERED
from .workers.worker import Worker

_ASK_WHO_S = 1.0
# A member with calls under way holds up its next report for so long, unless they end, so that
# rounds do not chase each other while a long call runs.
_HOLD_UP_S = 0.2
# Members of one timeout that came here one after the other give up so much apart, at most.
_LATE_S = 1.0
# Who has come here lives: its last report may be late by as much as a busy machine holds it up.
_HELD_UP_S = 3.0
# What the end of waiting for an answer stands for that another leader may have to give.
_REPORT_AGAIN = Reply([], {})


class _Verdict(NamedTuple):
    """What a leader answers to all who have reported a round."""

    under_way: int
    begun: int
    busy: str
    somebody_gives_up: bool
    is_over: bool = False
    # The workers that any member has lost, each with how; and the names of those that are here.
    lost: tuple[str, ...] = ()
    returned: tuple[str, ...] = ()


class _Report(NamedTuple):
    """What a member last said."""

    round_number: int = 0
    under_way: int = 0
    begun: int = 0
    gives_up: bool = False
    # The lives that may be followed by others and have ended for sure, as it has seen.
    over: tuple[str, ...] = ()
    # The functions that others called there whose Futures have no value yet.
    without_value: str = ""
    # The workers that were lost, as it has seen, each with how.
    lost: tuple[str, ...] = ()


class ShutdownBarrier:
    """This worker's part in the barrier, as a member and, if it comes to that, as leader.

    `absent()` returns who has not come, by another way than through the leader.

    Thread  any
    """

    def __init__(self, agent: RpcAgent, absent: Callable[[], list[str]]) -> None:
        self._agent, self._workers, self._counts = agent, agent.workers, agent.counts
        self._absent = absent
        self._round = 0
        # How long one that was lost has to come back; none any more once all have been here.
        self._return_s = constants.INIT_TIMEOUT_S
        self._num_returned = 0
        # Whether the store is polled for the launcher's notices of whom it will not restart, and
        # the ranks that these name.
        self._is_looking = False
        self._never_return: set[int] = set()
        # Whether this worker waits for others to come here, and whether all have come.
        self.is_waiting_for_others = self.have_all_come = False
        # The workers that a member has lost, each with how.
        self.lost: list[str] = []
        # The names of those that a member has lost, and that have come here in another life.
        self.returned: tuple[str, ...] = ()
        # The lives whose reasons were looked up in the store.
        self._asked_about: set[int] = set()
        self._asked: Future[Reply] | None = None
        # Guards all below it. Futures are completed outside.
        self._lock = threading.RLock()
        self._lost_at: dict[Worker, float] = {}
        self._reported: dict[Worker, _Report] = {}
        # Of which lives a member has said that they are over.
        self._over: set[str] = set()
        self._waiting: list[tuple[int, Future[Reply]]] = []  # (round, who waits for its sum)

    def register(self) -> None:
        """Take part from now on."""
        register_handler(MessageType.SHUTDOWN_BARRIER_REQ, self._report_came)
        self._workers.lost_callbacks.append(self._member_lost)

    def unregister(self) -> None:
        """Take part no more."""
        unregister_handler(MessageType.SHUTDOWN_BARRIER_REQ)

    def wait(self, timeout_s: float) -> None:
        """Go through rounds until nothing is under way anywhere.

        Without a timeout (0) the first round takes as long as the other members live and do not
        come: a worker that only serves may wait here for the end of the job. What is under way then
        has the default time. Who was lost and may come back has half of the timeout for it.

        Raises  ShutdownIncomplete naming the members that did not come, or have calls under way
        """
        if timeout_s:
            self._return_s = min(self._return_s, timeout_s / 2.0)
            deadline = time.monotonic() + timeout_s
            self._counts.wait_for_own_calls(timeout_s)
            verdict = self._one_round(deadline, timeout_s)
        else:
            self._counts.wait_for_own_calls(None)
            verdict = self._one_round(math.inf, timeout_s)
            timeout_s = constants.SHUTDOWN_TIMEOUT_S
            deadline = time.monotonic() + timeout_s
        self._return_s, self.have_all_come = 0.0, True
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
        self.is_waiting_for_others = True
        late_s = _LATE_S if before is None else _HELD_UP_S
        while True:
            num_returned = self._num_returned
            leader = self._leader()
            left_s = deadline - time.monotonic()
            under_way, begun = self._counts.activity()
            over = self._seen_over()
            waits_for = self._counts.without_value()
            # Now: the store may go once all have been here.
            lost = tuple(find_lost(self._workers, self.lost, self._asked_about))
            report = _Report(self._round, under_way, begun, left_s <= 0, over, waits_for, lost)
            metadata = report._asdict()
            # The others may come to their last round a little later than this worker.
            patience_s = 0.0 if deadline == math.inf else max(0.0, left_s) + late_s
            try:
                self._asked = self._agent.send(
                    leader, MessageType.SHUTDOWN_BARRIER_REQ, (), metadata, patience_s
                )
                if self._num_returned != num_returned:
                    continue
                reply = self._asked.wait()
            except RpcTimeoutError:
                raise self._explain(leader, timeout_s, before) from None
            except WorkerLostError:
                if leader.is_self:
                    raise
                continue
            except RpcNotRunningError:
                # The leader has heard the end from an earlier one, which left before we heard it.
                return _Verdict(0, 0, "", somebody_gives_up=False, is_over=True)
            if reply is _REPORT_AGAIN:
                continue
            verdict = filled(_Verdict, reply.metadata, leader.id)
            self.lost = without(merge_lost([*lost, *verdict.lost]), verdict.returned)
            self.returned = verdict.returned
            return verdict

    def _seen_over(self) -> tuple[str, ...]:
        """Return the lives that have ended, which the leader may hear of later than this worker."""
        lost = [worker for worker in self._workers.all() if self._workers.may_return(worker)]
        return tuple(_life(worker) for worker in lost if worker.is_surely_over)

    def _leader(self) -> Worker:
        living = (worker for worker in self._workers.all() if not worker.is_dead)
        # Of a worker that was given up nobody is left, itself included: then a call says why.
        return next(living, self._agent.worker())

    def _explain(
        self, leader: Worker, timeout_s: float, before: _Verdict | None
    ) -> ShutdownIncomplete:
        if before is not None and before.busy:
            # The others may have given up for that, and have left.
            return _too_busy(before.busy, timeout_s)
        metadata = {"round_number": self._round, "only_asks": True}
        try:
            reply = self._agent.send(
                leader, MessageType.SHUTDOWN_BARRIER_REQ, (), metadata, _ASK_WHO_S
            ).wait()
            missing = one_line(text(reply.metadata, "missing", leader.id))
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

    def _report_came(self, request: Message) -> Reply | Future[Reply]:
        metadata, sender = request.metadata, request.peer.id
        if metadata.get("only_asks"):
            return self._tell_who_is_missing(number(metadata, "round_number", sender))
        report = filled(_Report, metadata, sender)
        # The leader must see members die that it never spoke with.
        for worker in self._workers.all():
            if not worker.is_dead:
                # One that went unmet is no error of who reports; its next life is met by its rank.
                with contextlib.suppress(WorkerLostError):
                    self._workers.reach(worker.id)
        answer: Future[Reply] = InternalFuture()
        with self._lock:
            # What was reported again, to whoever leads now, may come behind the round that follows.
            if report.round_number >= self._reported.get(request.peer, report).round_number:
                self._reported[request.peer] = report
            self._over.update(report.over)
            if len(self._over) > MOST_REMEMBERED:
                self._over = {
                    *report.over
                }  # who is over is found in other ways, too, a little later
            self._waiting.append((report.round_number, answer))
        self._answer_full_rounds()
        return answer

    def may_still_return(self, worker: Worker) -> bool:
        """Return whether a member that is dead is waited for, because it may come back yet."""
        if worker.id in self._never_return or not self._workers.may_return(worker):
            return False
        return self._has_left_s(worker) > 0.0

    def _has_left_s(self, worker: Worker) -> float:
        now = time.monotonic()
        with self._lock:
            return self._lost_at.setdefault(worker, now) + self._return_s - now

    def member_returned(self, member: Worker) -> None:
        """Take note of a new life of a member: it may lead from here on."""
        with self._lock:
            # Nobody waits for the lives before it any more.
            for former in [
                one for one in self._lost_at if one.id == member.id and one is not member
            ]:
                del self._lost_at[former]
        self._num_returned += 1
        if self._asked is not None:
            self._asked.try_complete(_REPORT_AGAIN)

    def _member_lost(self, member: Worker) -> None:
        with self._lock:
            self._reported.pop(member, None)
            self._lost_at.setdefault(member, time.monotonic())
        self._answer_full_rounds()

    def _answer_full_rounds(self) -> None:
        if not self._waiting:
            return
        members = self._members()
        with self._lock:
            reports = self._reports_of(members)
            reached = min((report.round_number for report in reports.values()), default=0)
            answers = [answer for of, answer in self._waiting if of <= reached]
            self._waiting = [pair for pair in self._waiting if pair[0] > reached]
        lost = merge_lost(line for report in reports.values() for line in report.lost)
        here = {name for name, report in reports.items() if report.round_number}
        returned = tuple(sorted({lost_name(line) for line in lost} & here))
        verdict = _Verdict(
            under_way=sum(report.under_way for report in reports.values()),
            begun=sum(report.begun for report in reports.values()),
            busy=_busy(reports),
            somebody_gives_up=any(report.gives_up for report in reports.values()),
            lost=tuple(without(lost, returned)),
            returned=returned,
        )
        for answer in answers:
            answer.try_complete(Reply([], verdict._asdict()))

    def _tell_who_is_missing(self, asked: int) -> Reply:
        members = self._members()
        with self._lock:
            reports = self._reports_of(members)
        missing = [name for name, report in reports.items() if report.round_number < asked]
        return Reply([], {"missing": ", ".join(missing), "busy": _busy(reports)})

    def _members(self) -> list[Worker]:
        """Return those without whom no round is full: who lives, and who may come back yet."""
        members = []
        for worker in self._workers.all():
            if not worker.is_dead:
                members.append(worker)
            elif self.may_still_return(worker):
                members.append(worker)
                self._workers.call_after(self._has_left_s(worker), self._answer_full_rounds)
                self._look_soon()
        return members

    def _look_soon(self) -> None:
        """Poll soon whether lost workers are still started again, unless that is under way."""
        with self._lock:
            was_looking, self._is_looking = self._is_looking, True
        if not was_looking:
            self._workers.call_after(_ASK_WHO_S, self._look_whether_any_returns)

    def _look_whether_any_returns(self) -> None:
        lost = [worker.id for worker in self._workers.all() if self.may_still_return(worker)]
        try:
            if lost:
                self._never_return.update(self._workers.group.never_start_again(lost))
        finally:
            with self._lock:
                self._is_looking = False
        self._answer_full_rounds()

    def _reports_of(self, members: list[Worker]) -> dict[str, _Report]:
        return {worker.name: self._report_of(worker) for worker in members}

    def _report_of(self, member: Worker) -> _Report:
        # What is reported by one that is lost may be here before its end is told, or come after it:
        # it stands for no other life.
        if member.is_dead or _life(member) in self._over:
            return _Report()
        return self._reported.get(member, _Report())


def _life(worker: Worker) -> str:
    return f"{worker.record.incarnation:x}"


def _busy(reports: Mapping[str, _Report]) -> str:
    return ", ".join(
        f"{report.under_way} at {name!r}{told_without_value(report.without_value)}"
        for name, report in reports.items()
        if report.under_way
    )


def told_without_value(functions: str) -> str:
    return f", where the Future of {functions} has no value" if functions else ""


def _too_busy(busy: str, timeout_s: float) -> ShutdownIncomplete:
    return ShutdownIncomplete(
        f"all workers have reached the shutdown barrier, but calls are still under way after "
        f"{timeout_s:g} s: {one_line(busy) or 'new ones begin all the time'}"
    )
