"""The barrier at which the workers of a static group wait until no call is under way anywhere."""

# Note [The barrier of a shutdown]
# The members form a tree by their ranks (workers/tree.py). In each round a member waits until all
# its children have reported, adds its own calls under way, and reports the sum to its parent. The
# root decides; its verdict is the answer to each report, and is passed down the tree. So a member
# handles as many messages as it has children, and a round takes as many steps as the tree is deep.
#
# The shutdown is complete when two rounds in a row find nothing under way, and no member has begun
# a call between its two reports. So in the time after the last report of the first round and before
# the first report of the second, no member had a call and no message could still cause one. (A
# request that its caller has given up may still run.) A report has a flag for changes, not their
# number: if an ancestor was lost, a report may reach two members, which would both add the number.
# If no member reports that it has notices to send, there is no second barrier: see leaving.py.
#
# No member waits for a member that died. The parent of the dead member waits for the dead member's
# children instead, and notifies them, since they may not have noticed the death. The children then
# report again, to their nearest living ancestor. If none lives, the lowest living rank is the root.
# If a member waits for other members than in the previous round, the round counts as changed.
#
# In a group with `restarts`, members wait for a lost member until it is back and has called
# shutdown, or its time is over (`may_still_return`). A returned member may be the ancestor of
# others. So a member that learns of a return while it waits for an answer reports the same round
# again. A member may learn of a loss later than others do, and count a report of the lost member.
# So reports name the lives that have ended, and a round in which the root first learns of an ended
# life is repeated.

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Collection

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
from .message.metadata_fields import filled_with_defaults, metadata_of, text, texts
from .message.types import MessageType
from .shutdown_reports import (
    Gathering,
    Report,
    Verdict,
    first_ones,
    incomplete,
    life_of,
    told_without_value,
    too_busy,
)
from .workers import tree
from .workers.latest import MOST_REMEMBERED
from .workers.worker import Worker

_ASK_WHO_S = 1.0
# A member with calls under way delays its next report by so many seconds, unless the calls end.
# Without this delay, long calls would cause rounds without a pause.
_HOLD_UP_S = 0.2
# Members with equal timeouts call shutdown one after another, so they give up in this interval.
_LATE_S = 1.0
# By how much the report of a member that has reported before may be late on a busy machine.
_HELD_UP_S = 3.0
# The answer that ends a member's wait so that it reports again, perhaps to another member.
_REPORT_AGAIN = Reply([], {})
# The verdict for a member when the other members have left, or this member itself has left.
_LEFT = Verdict(is_over=True, is_last=True)


class ShutdownBarrier:
    """This worker's part in the barrier.

    `absent()` returns the members that, according to the store, have not called shutdown.

    Thread  any
    """

    def __init__(self, agent: RpcAgent, absent: Callable[[], list[str]]) -> None:
        self._agent, self._workers, self._counts = agent, agent.workers, agent.counts
        self._absent = absent
        self._fan_out = tree.FAN_OUT
        self._round = 0
        # The number of calls that this worker had begun at its last report, and that report's
        # round.
        self._begun, self._last_report = -1, 0
        self._verdict = Verdict(under_way=1)
        # Seconds in which a lost member may come back; 0 after all members have called shutdown.
        self._return_s = constants.INIT_TIMEOUT_S
        self._num_returned = 0
        # Whether a check is scheduled for lost workers that the launcher will not restart, and the
        # ranks of such workers that checks have found.
        self._is_looking = False
        self._never_return: set[int] = set()
        # Whether this worker waits for others to call shutdown, and whether all have called it.
        self.is_waiting_for_others = self.have_all_come = False
        # The workers that any member has lost, and the reasons.
        self.lost: list[str] = []
        # The names of lost members that have called shutdown in another life.
        self.returned: tuple[str, ...] = ()
        # The lives whose reasons were looked up in the store.
        self._asked_about: set[int] = set()
        self._asked: Future[Reply] | None = None
        # Leaving sets both. `owes_notices()` returns whether this worker may send notices before it
        # leaves. The root calls `give_up()`, which releases references and the store, before it
        # announces the last verdict; if it is None, a second barrier follows.
        self.owes_notices: Callable[[], bool] = lambda: True
        self.give_up: Callable[[], None] | None = None
        # Guards all attributes below. Futures are completed without this lock.
        self._lock = threading.RLock()
        self._gathering: Gathering | None = None
        # The members for which this worker waited in its last round.
        self._waited_for: frozenset[Worker] = frozenset()
        self._lost_at: dict[Worker, float] = {}
        self._reported: dict[Worker, Report] = {}
        # The lives that any member has reported as ended.
        self._over: set[str] = set()
        # The ended lives that an earlier verdict has named.
        self._over_when_judged: set[str] = set()
        self._num_looks = 0
        self._waiting: list[tuple[int, Future[Reply]]] = []  # (round, reply to a report)
        # _passed_over: members that a new parent of this worker has reported as lost. _adopted:
        # members that were notified that this worker is now their parent.
        self._passed_over: set[Worker] = set()
        self._adopted: set[Worker] = set()

    def register(self) -> None:
        """Register the handler, to take part from now on."""
        register_handler(MessageType.SHUTDOWN_BARRIER_REQ, self._report_came)
        self._workers.lost_callbacks.append(self._member_lost)

    def unregister(self) -> None:
        """Unregister the handler."""
        unregister_handler(MessageType.SHUTDOWN_BARRIER_REQ)
        with self._lock:
            gathering = self._gathering
        if gathering is not None:
            gathering.done.try_complete(_REPORT_AGAIN)

    def wait(self, timeout_s: float) -> bool:
        """Run rounds until nothing is under way anywhere; return whether this was the last barrier.

        Without a timeout (0) the first round waits as long as the missing members live. A worker
        that only serves may wait here for the end of the job. The later rounds have the default
        timeout. A lost worker that may come back has at most half of the timeout to do so.

        Raises  ShutdownIncomplete naming the members that did not call shutdown, or that have calls
                under way
        """
        deadline = time.monotonic() + timeout_s if timeout_s else math.inf
        if timeout_s:
            self._return_s = min(self._return_s, timeout_s / 2.0)
        self._counts.wait_for_own_calls(timeout_s or None)
        verdict = self._one_round(deadline, timeout_s)
        while verdict.is_again:
            verdict = self._one_round(deadline, timeout_s)
        if not timeout_s:
            timeout_s = constants.SHUTDOWN_TIMEOUT_S
            deadline = time.monotonic() + timeout_s
        self._return_s, self.have_all_come = 0.0, True
        while not verdict.is_over:
            before = verdict
            self._counts.wait_until_idle(min(_HOLD_UP_S, max(0.0, deadline - time.monotonic())))
            verdict = self._one_round(deadline, timeout_s, before)
            # Members with nearly the same deadline must give up in the same round, so that all
            # raise the same error. If a member left earlier, its calls would be missing in the next
            # sum. So a member whose time is over announces that in one more report before it
            # leaves.
            is_late = deadline - time.monotonic() < _LATE_S
            if verdict.somebody_gives_up and is_late and not verdict.is_over:
                # A busy member may have given up and left: then only `before` names it.
                raise too_busy(verdict.busy or before.busy, timeout_s)
        return verdict.is_last

    def _one_round(
        self, deadline: float, timeout_s: float, before: Verdict | None = None
    ) -> Verdict:
        """Run one round: report, and return the verdict. `before` is the previous verdict."""
        self._round += 1
        self.is_waiting_for_others = True
        # Other members may start their last round a little later than this worker.
        late_s = _LATE_S if before is None else _HELD_UP_S

        def patience_s() -> float | None:
            left_s = max(0.0, deadline - time.monotonic())
            return None if left_s == math.inf else left_s + late_s

        while True:
            self._workers.require_member()
            num_returned = self._num_returned
            gathering = self._gather(gives_up=deadline <= time.monotonic())
            if not gathering.done.wait_until_done(patience_s()):
                raise self._explain(self._worker_above(), timeout_s, before)
            self._workers.require_member()
            if not self._workers.is_open:
                return _LEFT
            if gathering.done.value() is _REPORT_AGAIN:
                continue
            report = self._sum_of(gathering)
            above = self._worker_above()
            if above.is_self:
                verdict = self._judge(report)
                if verdict.is_last and self.give_up is not None:
                    self.give_up()
                return self._end_round(verdict, report)
            kind, metadata = MessageType.SHUTDOWN_BARRIER_REQ, metadata_of(report)
            try:
                self._asked = self._agent.send(above, kind, (), metadata, patience_s() or 0.0)
                if self._num_returned != num_returned or above in self._passed_over:
                    continue
                reply = self._asked.wait()
            except RpcTimeoutError:
                raise self._explain(above, timeout_s, before) from None
            except WorkerLostError:
                continue
            except RpcNotRunningError:
                # The member above got the final verdict, and left before it passed the verdict on.
                return _LEFT
            if reply is not _REPORT_AGAIN:
                return self._end_round(
                    filled_with_defaults(Verdict, reply.metadata, above.id), report
                )

    # ---- members below this worker in the tree -------------------------------------------------

    def _gather(self, *, gives_up: bool) -> Gathering:
        """Begin to wait for the reports of the members below this worker."""
        under_way, begun = self._counts.activity()
        after = self._verdict
        has_changed = begun != self._begun or self._last_report != after.round_number
        waits_for = told_without_value(self._counts.without_value())
        busy = (f"{under_way} at {self._workers.me.name!r}{waits_for}",) if under_way else ()
        # Read the store now: the store may end when all members have reported.
        lost = tuple(find_lost(self._workers, self.lost, self._asked_about))
        calls = (self._round, under_way, has_changed, gives_up, busy)
        own = Report(*calls, self._seen_over(), lost, (), after.token, self.owes_notices())
        gathering = Gathering(own)
        with self._lock:
            self._begun = begun
            self._gathering = gathering
            self._note_over(gathering.own.over)
        self._look_again()
        return gathering

    def _look_again(self) -> None:
        """Update the members that the current round waits for, after the members have changed."""
        with self._lock:
            self._num_looks = number = self._num_looks + 1
            gathering = self._gathering
        if gathering is None or gathering.done.done():
            return
        members = self._members_below()
        for worker in members:
            if not (worker.is_dead or worker.is_met):
                self._watch(worker)
            if tree.parent_of(worker.id, self._fan_out) != self._workers.me.rank:
                self._adopt(worker)
        with self._lock:
            if self._num_looks != number:
                return  # a later call, after another change, has the newer result
            round_number = gathering.own.round_number
            late = [one for one in members if self._report_of(one).round_number < round_number]
            gathering.awaited = dict.fromkeys(late)
            self._waited_for, before = frozenset(members), self._waited_for
            if self._waited_for != before and round_number > 1:
                gathering.own = gathering.own._replace(has_changed=True)
        if not late:
            gathering.done.try_complete(None)

    def _members_below(self) -> list[Worker]:
        """Return the members whose reports a round needs: those that live or may return."""
        me = self._workers.me.rank
        found = self._below(me)
        if self._worker_above().is_self:
            # This worker is the root, so it also takes over the children of lost ancestors.
            found += [worker for worker in self._below(-1) if not worker.is_self]
        return found

    def _below(self, rank: int) -> list[Worker]:
        """Return the children of a rank; for a dead child, also its children.

        -1 stands for the parent of the root.
        """
        size = self._workers.me.world_size
        below = tree.children_of(rank, size, self._fan_out) if rank >= 0 else range(1)
        found: list[Worker] = []
        for worker in filter(None, map(self._member, below)):
            if not self._is_gone(worker):
                found.append(worker)
                continue
            if self.may_still_return(worker):
                found.append(worker)
                self._workers.call_after(self._has_left_s(worker), self._look_again)
                self._look_soon()
            if worker.id != self._workers.me.rank:
                found += self._below(worker.id)
        return found

    def _is_gone(self, worker: Worker) -> bool:
        return worker.is_dead or worker in self._passed_over

    def _member(self, rank: int) -> Worker | None:
        worker = self._workers.known(rank)
        return self._workers.find(rank) if worker is None else worker

    def _adopt(self, worker: Worker) -> None:
        """Notify a member, once, that this worker replaces the member's lost parent."""
        if worker in self._adopted or worker.is_dead:
            return
        self._adopted.add(worker)
        ranks = tree.ancestors_of(worker.id, self._fan_out)
        lost = [one for one in map(self._workers.known, ranks) if one is not None and one.is_dead]
        metadata = {"passes_over": tuple(life_of(one) for one in lost)}
        with contextlib.suppress(RpcError):
            self._agent.send(worker, MessageType.SHUTDOWN_BARRIER_REQ, (), metadata, _ASK_WHO_S)

    def _watch(self, worker: Worker) -> None:
        """Connect to a member, so that its death is noticed."""
        # Ignore a member that cannot be reached: its next life is found by its rank.
        with contextlib.suppress(WorkerLostError, RpcNotRunningError):
            self._workers.reach(worker.id)

    def _sum_of(self, gathering: Gathering) -> Report:
        """Return the sum of the reports of this worker and all members below it."""
        own = gathering.own
        with self._lock:
            names, reports = [self._workers.me.name], [own]
            for worker in self._reported:
                report = self._report_of(worker)
                if report.round_number >= own.round_number:
                    names.append(worker.name)
                    reports.append(report)
        if len(reports) == 1 and not own.lost:
            return own
        lost = merge_lost([line for report in reports for line in report.lost])
        here = {lost_name(line) for line in lost} & {*names}
        returned = here.union(*(report.returned for report in reports))
        return Report(
            own.round_number,
            under_way=sum(report.under_way for report in reports),
            # A report that follows another root's verdict may be too old, so it counts as changed.
            has_changed=any(one.has_changed or one.after != own.after for one in reports),
            gives_up=any(report.gives_up for report in reports),
            busy=first_ones([part for report in reports for part in report.busy]),
            over=tuple(sorted({life for report in reports for life in report.over})),
            lost=tuple(without(lost, returned)),
            returned=tuple(sorted(returned)),
            after=own.after,
            owes_notices=any(report.owes_notices for report in reports),
        )

    # ---- members above this worker in the tree -------------------------------------------------

    def _worker_above(self) -> Worker:
        """Return the worker to which this one reports: its nearest living ancestor.

        The root reports to itself.
        """
        for above in map(self._member, tree.ancestors_of(self._workers.me.rank, self._fan_out)):
            if above is not None and not self._is_gone(above):
                return above
        living = [one for one in self._below(-1) if not self._is_gone(one)]
        # `living` is empty if the group has given this worker up.
        return min(living, key=lambda one: one.id, default=self._agent.worker())

    def _judge(self, report: Report) -> Verdict:
        """Return the verdict on a round, from the sum of all reports."""
        is_again = not self._over_when_judged.issuperset(report.over)
        self._over_when_judged.update(report.over)
        is_quiet = report.under_way == self._verdict.under_way == 0 and not report.has_changed
        is_over = is_quiet and not is_again
        calls = (report.under_way, ", ".join(report.busy), report.gives_up, report.round_number)
        return Verdict(
            *(*calls, is_over, is_again),
            over=report.over,
            lost=report.lost,
            returned=report.returned,
            token=f"{self._workers.me.incarnation:x} {report.round_number}",
            is_last=is_over and not report.owes_notices and self.give_up is not None,
        )

    def _end_round(self, verdict: Verdict, report: Report) -> Verdict:
        """Pass a verdict on to the members below, and return it."""
        self._last_report = report.round_number
        self._round = max(self._round, verdict.round_number)
        lost = [*report.lost, *verdict.lost]
        self.lost = without(merge_lost(lost), verdict.returned) if lost else lost
        self.returned = verdict.returned
        with self._lock:
            self._verdict, self._gathering = verdict, None
            self._over_when_judged.update(verdict.over)
            self._note_over(verdict.over)
            answers = [answer for of, answer in self._waiting if of <= verdict.round_number]
            self._waiting = [pair for pair in self._waiting if pair[0] > verdict.round_number]
        for answer in answers:
            answer.try_complete(Reply([], metadata_of(verdict)))
        return verdict

    def _seen_over(self) -> tuple[str, ...]:
        """Return the ended lives that this worker knows; others may not know them yet."""
        dead = [one for one in self._workers.known_here() if one.is_dead and one.is_surely_over]
        return tuple(life_of(worker) for worker in dead if self._workers.may_return(worker))

    def _explain(
        self, leader: Worker, timeout_s: float, before: Verdict | None
    ) -> ShutdownIncomplete:
        if before is not None and before.busy:
            # The other members may have given up because of these calls, and left.
            return too_busy(before.busy, timeout_s)
        missing, busy = self._names_of_missing(), ""
        if not missing and not leader.is_self:
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
        if self._workers.me.world_size > self._fan_out + 1 and before is None:
            # A child that has not reported may only be waiting for its own children.
            missing = ", ".join(self._absent()) or missing
        if not missing:
            return too_busy(busy, timeout_s)
        return incomplete(missing, timeout_s, has_come=before is not None)

    def _report_came(self, request: Message) -> Reply | Future[Reply]:
        metadata, sender = request.metadata, request.peer
        if metadata.get("only_asks"):
            return Reply([], {"missing": self._names_of_missing(), "busy": self._verdict.busy})
        if "passes_over" in metadata:
            self._was_adopted(texts(metadata, "passes_over", sender.id))
            return Reply([], {})
        report = filled_with_defaults(Report, metadata, sender.id)
        answer: Future[Reply] = InternalFuture()
        is_full = False
        with self._lock:
            gathering = self._gathering
            if report.round_number <= self._verdict.round_number:
                # The round is decided: the sender was lost and is back, or has another root.
                return Reply([], metadata_of(self._verdict))
            # After a change of parents, a repeated report may arrive after the next round's report.
            if report.round_number >= self._reported.get(sender, report).round_number:
                self._reported[sender] = report
            self._waiting.append((report.round_number, answer))
            # A returned member may report before this worker knows that its rank has a new life.
            is_new = self._note_over(report.over) or sender not in self._waited_for
            if gathering is not None and not is_new:
                if self._report_of(sender).round_number >= gathering.own.round_number:
                    gathering.awaited.pop(sender, None)
                is_full = not gathering.awaited
        if is_new:
            self._look_again()
        elif is_full and gathering is not None:
            gathering.done.try_complete(None)
        return answer

    def _was_adopted(self, lives: Collection[str]) -> None:
        """Report again, to another member, because the members with these lives are lost."""
        above = map(self._workers.known, tree.ancestors_of(self._workers.me.rank, self._fan_out))
        passed = {one for one in above if one is not None and life_of(one) in lives}
        with self._lock:
            is_new = not self._passed_over.issuperset(passed)
            self._passed_over |= passed
        if is_new and self._asked is not None:
            self._asked.try_complete(_REPORT_AGAIN)

    def _note_over(self, over: Collection[str]) -> bool:
        """Record lives that have ended; return whether any life was not recorded before."""
        is_new = not self._over.issuperset(over)
        self._over.update(over)
        if len(self._over) > MOST_REMEMBERED:
            # This worker notices the forgotten ends in other ways, a little later.
            self._over = {*over}
        return is_new

    def may_still_return(self, worker: Worker) -> bool:
        """Return whether the barrier waits for a dead member because it may come back."""
        if worker.id in self._never_return or not self._workers.may_return(worker):
            return False
        return self._has_left_s(worker) > 0.0

    def _has_left_s(self, worker: Worker) -> float:
        now = time.monotonic()
        with self._lock:
            return self._lost_at.setdefault(worker, now) + self._return_s - now

    def member_returned(self, member: Worker) -> None:
        """Handle a new life of a member, which may be an ancestor of this worker."""
        with self._lock:
            # The barrier does not wait for the rank's earlier lives any more.
            for former in [
                one for one in self._lost_at if one.id == member.id and one is not member
            ]:
                del self._lost_at[former]
        self._num_returned += 1
        if self._asked is not None:
            self._asked.try_complete(_REPORT_AGAIN)
        self._look_again()

    def _member_lost(self, member: Worker) -> None:
        with self._lock:
            self._reported.pop(member, None)
            self._lost_at.setdefault(member, time.monotonic())
        self._look_again()

    def _names_of_missing(self) -> str:
        """Return the names of the members whose report for this round has not arrived here."""
        with self._lock:
            gathering = self._gathering
            late = [] if gathering is None else [worker.name for worker in gathering.awaited]
        return ", ".join(first_ones(late))

    def _look_soon(self) -> None:
        """Check soon whether lost workers will be restarted, unless a check is scheduled."""
        with self._lock:
            was_looking, self._is_looking = self._is_looking, True
        if not was_looking:
            self._workers.call_after(_ASK_WHO_S, self._look_whether_any_returns)

    def _look_whether_any_returns(self) -> None:
        lost = [one.id for one in self._workers.known_here() if self.may_still_return(one)]
        try:
            if lost:
                self._never_return.update(self._workers.group.never_start_again(lost))
        finally:
            with self._lock:
                self._is_looking = False
        self._look_again()

    def _report_of(self, member: Worker) -> Report:
        # The report of a lost member may arrive before or after this worker learns of the loss. The
        # report does not count for the member's next life.
        if member.is_dead or (self._over and life_of(member) in self._over):
            return Report()
        return self._reported.get(member, Report())
