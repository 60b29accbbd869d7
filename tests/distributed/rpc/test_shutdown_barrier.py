"""The barrier of a graceful shutdown: its end, its timeouts and its reports."""

from __future__ import annotations

import functools
import operator
import os
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from fastdist.concurrency.future import Future
from fastdist.core.errors import (
    RpcNotRunningError,
    RpcTimeoutError,
    ShutdownIncomplete,
    WorkerLostError,
)
from fastdist.distributed import rpc
from fastdist.distributed.rpc import shutdown_barrier
from fastdist.distributed.rpc.handlers import Reply
from fastdist.distributed.rpc.message.message import Message
from fastdist.distributed.rpc.message.types import MessageType
from fastdist.distributed.rpc.metrics import CallCounts
from fastdist.distributed.rpc.shutdown_barrier import ShutdownBarrier
from fastdist.distributed.rpc.shutdown_reports import Report
from fastdist.distributed.rpc.workers.record import WorkerInfo
from tests.distributed.workers import run_group
from tests.standstill import Standstill


class Answer(Future[Reply]):
    """A Future whose `wait` ends after the call's timeout, like the Future of an agent's call."""

    timeout_s: float | None = None

    def wait(self, timeout: float | None = None) -> Reply:
        try:
            return super().wait(self.timeout_s)
        except TimeoutError:
            raise RpcTimeoutError("too long") from None


class Life:
    """A member as seen by another member."""

    def __init__(self, member: Member, seen_by: Member) -> None:
        self.member, self.is_self = member, member is seen_by
        self.id, self.name = member.info.id, member.info.name
        self.record = SimpleNamespace(incarnation=id(member))
        self.is_surely_over = True  # valid only if `is_dead`
        self.is_met = False

    @property
    def is_dead(self) -> bool:
        return self.member.dead


class Member:
    """One worker of a group in this process, with the parts of an agent that a barrier needs."""

    def __init__(self, group: list[Member], rank: int) -> None:
        self.group = group
        self.info = WorkerInfo(f"w{rank}", rank)
        self.counts = CallCounts()
        me = SimpleNamespace(rank=rank, name=f"w{rank}", world_size=3, incarnation=id(self))
        self.workers = SimpleNamespace(
            me=me,
            is_open=True,
            known=self.known,
            find=self.known,
            known_here=self.members,
            require_member=lambda: None,
            reach=lambda worker: None,
            may_return=lambda worker: False,
            lost=lambda: self.has_lost,
            given_up=None,
            group=SimpleNamespace(is_static=False),
            call_after=lambda seconds, function: None,
        )
        self.dead = False
        self.num_sent = 0
        self.has_lost: list[str] = []
        self.before_send: Callable[[], None] = lambda: None
        self.lives: dict[Member, Any] = {}
        self.barrier = ShutdownBarrier(self, list)  # type: ignore[arg-type]
        self.error: BaseException | None = None
        self.was_last = False
        # Seconds that the member spent in the barrier, and those of them in which this process ran.
        self.took_s = self.moved_s = 0.0

    def life_of(self, member: Member) -> Any:
        return self.lives.setdefault(member, Life(member, self))

    def worker(self) -> Any:
        return self.life_of(self)

    def known(self, rank: int) -> Any:
        return self.life_of(self.group[rank]) if rank < len(self.group) else None

    def members(self) -> list[Any]:
        return [self.life_of(member) for member in self.group]

    def send(
        self, to: Life, kind: int, tensors: Any, metadata: dict[str, Any], timeout_s: float
    ) -> Answer:
        self.num_sent += 1
        self.before_send()
        answer = Answer()
        answer.timeout_s = timeout_s or None
        if to.is_dead:
            answer.set_exception(WorkerLostError(f"{to.name} is gone"))
            return answer
        try:
            report = Message(kind, peer=to.member.life_of(self), metadata=metadata)
            came = to.member.barrier._report_came(report)
        except RpcNotRunningError as error:
            answer.set_exception(error)
            return answer
        if isinstance(came, Future):
            came.add_done_callback(
                lambda done: answer.try_complete(
                    None if done.exception() else done.value(), done.exception()
                )
            )
        else:
            answer.set_result(came)
        return answer

    def wait(self, timeout_s: float, all_come: threading.Barrier) -> None:
        all_come.wait(20)
        began = time.monotonic()
        with Standstill() as stood:
            try:
                self.was_last = self.barrier.wait(timeout_s)
            except ShutdownIncomplete as error:
                self.error = error
        self.took_s = time.monotonic() - began
        self.moved_s = self.took_s - stood.seconds


def make_group(size: int = 3) -> list[Member]:
    group: list[Member] = []
    group.extend(Member(group, rank) for rank in range(size))
    return group


def start(members: list[Member], *timeouts_s: float) -> list[threading.Thread]:
    """Let members enter the barrier together. Either one timeout is given, or one per member."""
    if len(timeouts_s) == 1:
        timeouts_s *= len(members)
    all_come = threading.Barrier(len(members))
    threads = [
        threading.Thread(target=member.wait, args=(timeout_s, all_come))
        for member, timeout_s in zip(members, timeouts_s, strict=True)
    ]
    for thread in threads:
        thread.start()
    return threads


def join(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()


@pytest.mark.seed("T30")
def test_all_leave_when_nothing_is_under_way() -> None:
    group = make_group()
    join(start(group, 5.0))
    assert [member.error for member in group] == [None] * 3
    assert max(member.moved_s for member in group) < 2


@pytest.mark.parametrize("owing", [None, 0, 2])
def test_no_second_barrier_follows_if_no_member_owes_notices(owing: int | None) -> None:
    group, left_at_end = make_group(), list[bool]()
    # Rank 0 gives up the store before the other members learn that they may leave.
    group[0].barrier.give_up = lambda: left_at_end.extend(one.was_last for one in group)
    for rank, member in enumerate(group):
        member.barrier.owes_notices = functools.partial(operator.eq, rank, owing)
    join(start(group, 5.0))
    assert [member.was_last for member in group] == [owing is None] * 3
    assert left_at_end == ([False] * 3 if owing is None else [])


def test_a_member_that_went_before_the_leader_met_it_is_no_error_of_who_reports() -> None:
    group, reached = make_group(), list[int]()

    def reach(rank: int) -> None:
        reached.append(rank)
        if rank == 1:
            raise WorkerLostError("worker 'w1' (rank 1) has left: its rank is that of 'w1' now")

    group[0].workers.reach = reach
    join(start(group, 5.0))
    assert [member.error for member in group] == [None] * 3
    assert {*reached} == {1, 2}


@pytest.mark.seed("T30")
def test_nobody_leaves_while_a_member_runs_a_call() -> None:
    group = make_group()
    group[1].counts.request_came()
    threads = start(group, 10.0)
    threads[0].join(0.5)
    assert all(thread.is_alive() for thread in threads)
    group[1].counts.request_answered()
    join(threads)
    assert [member.error for member in group] == [None] * 3


def test_a_call_that_does_not_end_is_told_to_all_alike_and_in_time() -> None:
    group = make_group()
    group[1].counts.request_came()
    join(start(group, 0.6))
    assert len({str(member.error) for member in group}) == 1
    assert "still under way after 0.6 s: 1 at 'w1'" in str(group[0].error)
    for member in group:
        assert member.took_s > 0.5 and member.moved_s < 2


def test_rounds_do_not_chase_each_other_while_a_call_runs() -> None:
    group = make_group()
    group[1].counts.request_came()
    join(start(group, 1.0))
    assert max(member.num_sent for member in group) < 12


def test_a_call_of_ones_own_without_an_answer_is_told_to_all_alike() -> None:
    group = make_group()
    group[2].counts.call_sent(0, "w0", 10)
    join(start(group, 0.6))
    assert len({str(member.error) for member in group}) == 1
    assert "1 at 'w2'" in str(group[0].error)


@pytest.mark.seed("T30")
def test_work_that_wanders_from_call_to_call_is_not_overlooked() -> None:
    # w1 starts and ends a call before each of its first five reports.
    group = make_group()
    calls_left = [5]

    def have_a_call() -> None:
        if calls_left[0]:
            calls_left[0] -= 1
            group[1].counts.request_came()
            group[1].counts.request_answered()

    group[1].before_send = have_a_call
    join(start(group, 5.0))
    assert [member.error for member in group] == [None] * 3
    assert calls_left == [0]


@pytest.mark.one_in(3)
def test_a_group_that_never_falls_quiet_is_left_at_the_timeout() -> None:
    group = make_group()

    def have_a_call() -> None:
        group[1].counts.request_came()
        group[1].counts.request_answered()

    group[1].before_send = have_a_call
    join(start(group, 0.5))
    for member in group:
        assert "new ones begin all the time" in str(member.error)


def test_a_member_that_does_not_come_is_named() -> None:
    group = make_group()
    join(start(group[:2], 0.4))
    for member in group[:2]:
        assert "missing: w2" in str(member.error)
        assert member.moved_s < 2


def test_the_next_rank_leads_when_the_leader_dies() -> None:
    group = make_group()
    threads = start(group[1:], 10.0)
    threads[0].join(0.2)
    waiting, group[0].barrier._waiting = group[0].barrier._waiting, []
    group[0].dead = True
    for _, answer in waiting:
        answer.set_exception(WorkerLostError("w0 is gone"))
    join(threads)
    assert [member.error for member in group] == [None] * 3


def test_a_leader_that_has_left_already_means_the_end_for_all() -> None:
    # w0 has notified w1 that the barrier is over, and both leave before w2 reads w0's notice.
    group = make_group()
    group[0].dead = True

    def no_longer_running(message: Message) -> Reply:
        raise RpcNotRunningError("RPC is no longer running on this node")

    group[1].barrier._report_came = no_longer_running  # type: ignore[method-assign]
    join(start(group[2:], 0.0))
    assert group[2].error is None and group[2].num_sent == 1


def test_a_member_whose_time_runs_out_in_a_round_does_not_go_unannounced() -> None:
    # w0 reports just before its timeout, and gets the answer just after its timeout. w1 and w2 have
    # a longer timeout.
    group = make_group()
    group[1].counts.request_came()
    threads = start(group, 0.5, 0.7, 0.7)
    deadline = time.monotonic() + 0.5

    def be_late() -> None:
        if 0 < deadline - time.monotonic() < 0.3:
            threading.Event().wait(deadline + 0.05 - time.monotonic())

    group[2].before_send = be_late
    join(threads)
    for member in group:
        assert "1 at 'w1'" in str(member.error)
    assert len({member.barrier._round for member in group}) == 1


def test_a_member_that_is_held_up_at_its_last_report_is_waited_for() -> None:
    # Delay only the member's last report, as if the member had no processor.
    group = make_group()
    group[1].counts.request_came()

    def stand_still() -> None:
        if group[2].num_sent == 2:
            threading.Event().wait(1.7)

    group[2].before_send = stand_still
    join(start(group, 0.4))
    text = (
        "all workers have reached the shutdown barrier, but calls are still under way after "
        "0.4 s: 1 at 'w1'"
    )
    assert [str(member.error) for member in group] == [text] * 3
    assert all(member.took_s > 1.5 and member.moved_s < 3 for member in group)


def test_what_was_under_way_is_told_though_all_others_have_given_up_and_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shutdown_barrier, "_HELD_UP_S", 0.2)
    group = make_group()
    group[1].counts.request_came()
    *threads, late = start(group, 0.4, 0.4, 1.6)
    join(threads)
    # w0 has left. w1 still waits for its function, and no longer answers reports.
    group[1].barrier._report_came = lambda request: Future()  # type: ignore[method-assign]
    group[0].dead = True
    join([late])
    assert "still under way after 1.6 s: 1 at 'w1'" in str(group[2].error)


def test_a_member_that_stops_answering_after_it_has_come_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shutdown_barrier, "_HELD_UP_S", 0.2)
    group = make_group()
    thawed = threading.Event()

    def freeze_at_the_second_report() -> None:
        if group[2].num_sent == 2:
            thawed.wait(20)

    group[2].before_send = freeze_at_the_second_report
    threads = start(group, 0.4)
    join(threads[:2])
    thawed.set()
    join(threads)
    for member in group[:2]:
        assert "not all answered there until its end, within 0.4 s; missing: w2" in str(
            member.error
        )
        assert member.moved_s < 2.5


def test_the_late_end_of_a_life_takes_nothing_from_the_report_of_the_next() -> None:
    group = make_group(2)
    group[1].dead, former = True, group[1]
    group[1] = Member(group, 1)
    waits = [threading.Thread(target=group[1].wait, args=(20.0, threading.Barrier(1)))]
    waits[0].start()
    while not group[0].barrier._reported:
        pass
    # Only now does the barrier of rank 0 learn that the former life of rank 1 has ended.
    group[0].barrier._member_lost(group[0].life_of(former))
    waits.append(threading.Thread(target=group[0].wait, args=(20.0, threading.Barrier(1))))
    waits[1].start()
    join(waits)
    assert [member.error for member in group] == [None] * 2


# ---- over processes -----------------------------------------------------------------------------


begun = threading.Event()
all_came = threading.Barrier(3)


def hold(seconds: float) -> None:
    begun.set()
    threading.Event().wait(seconds)


def has_begun() -> bool:
    return begun.is_set()


def wait_for_all() -> None:
    all_came.wait(20)


def forget_a_call() -> None:
    """Start a function on w1, and give up the call."""
    timeout_s = 0.1
    while not rpc.rpc_sync("w1", has_begun):
        with pytest.raises(RpcTimeoutError):
            rpc.rpc_sync("w1", hold, (4.0,), timeout=timeout_s)
        timeout_s *= 2


def shut_down_while_a_forgotten_call_runs() -> tuple[str, float, float, float]:
    rpc.init_rpc(f"w{os.environ['RANK']}")
    if os.environ["RANK"] == "0":
        forget_a_call()
    rpc.rpc_sync("w0", wait_for_all)
    busy_before, began = time.process_time(), time.monotonic()
    with pytest.raises(ShutdownIncomplete) as raised, Standstill() as stood:
        rpc.shutdown(timeout=1.5)
    took_s = time.monotonic() - began
    return str(raised.value), took_s, took_s - stood.seconds, time.process_time() - busy_before


@pytest.mark.one_in(3)
def test_a_shutdown_ends_in_time_though_a_call_that_nobody_waits_for_still_runs() -> None:
    answers = run_group(shut_down_while_a_forgotten_call_runs, 3)
    text = (
        "all workers have reached the shutdown barrier, but calls are still under way after "
        "1.5 s: 1 at 'w1'"
    )
    assert [answer[0] for answer in answers] == [text] * 3
    for rank, (_, took_s, moved_s, busy_s) in enumerate(answers):
        # Rank 1, which runs the function, waits a little longer for its end.
        assert took_s > 1
        assert moved_s < (6 if rank == 1 else 3.5)
        assert busy_s < 0.5


def test_a_leader_that_was_lost_and_is_back_hears_again_from_those_who_wait() -> None:
    group = make_group()
    group[0].dead = True
    came = threading.Barrier(2)
    waits = [threading.Thread(target=group[1].wait, args=(20.0, came), daemon=True)]
    waits[0].start()
    came.wait(20)
    while not (group[1].barrier._gathering and group[1].barrier._gathering.awaited):
        pass  # w1 leads now, and waits for the third worker
    group[0] = Member(group, 0)
    group[1].barrier.member_returned(group[1].life_of(group[0]))
    together = threading.Barrier(2)
    for rank in (0, 2):
        waits.append(threading.Thread(target=group[rank].wait, args=(20.0, together), daemon=True))
        waits[-1].start()
    for thread in waits:
        thread.join(10.0)
        assert not thread.is_alive(), "one waits for a leader that nobody else reports to"
    assert [member.error for member in group] == [None] * 3


def report_to(leader: Member, member: Member, round_number: int = 1, *over: Member) -> Answer:
    """Report that `member` has no pending work in a round, and that it saw the lives `over` end."""
    lives = tuple(f"{id(one):x}" for one in over)
    words = Report(round_number, over=lives)._asdict()
    to = member.life_of(leader)
    return member.send(to, MessageType.SHUTDOWN_BARRIER_REQ, (), words, 0.0)


def lead(leader: Member, round_number: int = 1) -> Future[Any]:
    """Make a leader start a round; return a Future that completes when all members reported."""
    leader.barrier._round = round_number
    return leader.barrier._gather(gives_up=False).done


def test_a_round_that_is_reported_again_may_come_behind_the_next_one() -> None:
    leader, other = make_group(2)
    for number in (2, 1):
        report_to(leader, other, number)
    assert lead(leader, 2).done()


def test_what_a_member_reported_before_it_was_lost_does_not_stand_for_its_next_life() -> None:
    leader, other, lost = group = make_group(3)
    leader.workers.may_return = lambda life: life.is_dead
    for member in (lost, other):
        report_to(leader, member)
    # The lost member is dead, but the waiters for its loss are not notified yet. The leader starts
    # its round at this time.
    lost.dead = True
    all_came = lead(leader)
    assert not all_came.done()
    # The leader may read an old report of the lost member after it knows of the loss.
    leader.barrier._member_lost(leader.life_of(lost))
    report_to(leader, lost)
    assert not all_came.done()
    group[2] = Member(group, 2)
    report_to(leader, group[2])
    assert all_came.done()


def test_a_loss_that_a_member_knows_of_is_known_to_the_leader_with_its_report() -> None:
    leader, other, lost = group = make_group(3)
    leader.workers.may_return = lambda life: life.is_dead
    # The leader has the lost member's report, but has not noticed the loss.
    report_to(leader, lost)
    all_came = lead(leader)
    report_to(leader, other, 1, lost)
    assert not all_came.done()
    lost.dead = True
    leader.barrier._member_lost(leader.life_of(lost))
    assert not all_came.done()
    group[2] = Member(group, 2)
    report_to(leader, group[2])
    assert all_came.done()


def test_who_reports_tells_which_lives_are_over_that_others_may_follow() -> None:
    group = make_group(3)
    group[2].dead = True
    group[1].workers.may_return = lambda life: life.is_dead
    join(start(group[:2], 5.0))
    assert group[0].barrier._over == {f"{id(group[2]):x}"}


def test_what_one_member_has_lost_is_known_to_all_with_the_best_reason() -> None:
    group = make_group()
    ended = "'w3' (rank 3): it ended without rpc.shutdown()"
    group[0].has_lost = ["'w3' (rank 3): its process has ended"]
    group[1].has_lost = [ended, "'w4' (rank 4): its process has ended"]
    group[2].has_lost = [f"{ended}, by ValueError: mine", "'w0' (rank 0): no sign of life"]
    join(start(group, 5.0))
    known = [f"{ended}, by ValueError: mine", "'w4' (rank 4): its process has ended"]
    # w0 is in the barrier, so only w2, which has noticed its loss, may count it as lost.
    assert [member.barrier.lost for member in group[:2]] == [known, known]
