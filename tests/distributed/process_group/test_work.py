"""Work: waiting, Futures, order, and errors of asynchronous collectives."""

from __future__ import annotations

import threading
import time
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

import fastdist as fd
from fastdist import distributed as dist
from fastdist.core.errors import CollectiveError, CollectiveLostError, CollectiveTimeoutError
from fastdist.distributed.process_group import group_base
from fastdist.distributed.process_group.work import Lane, Work, finished
from tests.distributed.process_group.thread_members import run_members


def test_works_end_in_order_and_their_futures_have_the_tensors() -> None:
    def member(rank: int) -> list[Any]:
        tensors = [fd.full((2,), float(step + rank)) for step in range(5)]
        works: list[Any] = [dist.all_reduce(one, async_op=True) for one in tensors]
        then = works[-1].get_future().then(lambda future: future.value()[0].sum().item())
        # The barrier is queued after the other collectives, so it waits for them.
        dist.barrier()
        assert all(work.is_completed() and work.is_success() for work in works)
        assert works[0].wait() is True and works[0].exception() is None
        assert works[1].result()[0] is tensors[1]
        names = [one.name for one in threading.enumerate()]
        assert names.count(f"fastdist group {dist.group.WORLD.group_name}") <= 2
        return [*(one[0].item() for one in tensors), then.wait()]

    assert run_members(2, member) == [[1.0, 3.0, 5.0, 7.0, 9.0, 18.0]] * 2


def test_errors_reach_wait_and_the_future() -> None:
    def member(rank: int) -> None:
        if rank:
            dist.group.WORLD._carriers["threads"].lose()
            return
        x = fd.ones(2)
        work: Any = dist.all_reduce(x, async_op=True)
        with pytest.raises(CollectiveLostError, match="rank 1 is lost"):
            work.wait()
        assert work.is_completed() and not work.is_success() and x.tolist() == [1.0, 1.0]
        assert isinstance(work.exception(), CollectiveLostError)
        with pytest.raises(CollectiveLostError):
            work.get_future().wait()

    run_members(2, member)


def test_a_wait_may_have_its_own_timeout_and_the_end_fails_what_is_queued(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(group_base, "_DRAIN_S", 0.02)

    def member(rank: int) -> None:
        if rank:
            ready.wait()
            return
        first: Any = dist.barrier(async_op=True)
        second: Any = dist.barrier(async_op=True)
        with pytest.raises(CollectiveTimeoutError, match="Operation timed out"):
            first.wait(timedelta(milliseconds=10))
        name = f"fastdist group {dist.group.WORLD.group_name}"
        before = [one for one in threading.enumerate() if one.name == name]
        dist.destroy_process_group()
        assert before and not any(one.is_alive() for one in before)
        for work in (first, second):
            with pytest.raises(CollectiveError, match="was destroyed"):
                work.wait()
        ready.set()

    ready = threading.Event()
    run_members(2, member)


@pytest.mark.parametrize("backend", ["threads", "gloo"])
def test_what_is_queued_ends_before_a_member_leaves(backend: str) -> None:
    """The member waits for no queued collective, like a program whose last step is asynchronous."""
    leaves, has_left = threading.Event(), threading.Event()

    def member(rank: int) -> Any:
        total, got = fd.full((3,), rank + 1.0), [fd.zeros(2) for _ in range(3)]
        if rank:
            leaves.wait(5)
            dist.all_reduce(total)
            has_left.wait(5)
            for one in got:
                dist.recv(one, 0)
            return total.tolist(), [one.tolist() for one in got]
        dist.all_reduce(total, async_op=True)
        for step in range(3):
            dist.isend(fd.full((2,), float(step)), 1)
        received: Any = dist.irecv(fd.zeros(1), 1)
        threading.Timer(0.05, leaves.set).start()
        dist.destroy_process_group()
        has_left.set()
        # Nothing more arrives at this member.
        with pytest.raises(CollectiveError, match=r"was destroyed|was closed"):
            received.wait()
        return total.tolist(), None

    found = run_members(2, member, backend=backend)
    assert found == [([3.0] * 3, None), ([3.0] * 3, [[0.0] * 2, [1.0] * 2, [2.0] * 2])]


def test_a_lane_is_drained_until_a_time_and_not_by_itself() -> None:
    lane, gate = Lane("lane"), threading.Event()
    works = [lane.start(lambda _: gate.wait(5), Work()), lane.start(lambda _: None, Work())]
    began = time.monotonic()
    lane.drain(began + 0.02)
    assert time.monotonic() - began >= 0.02 and not works[0].is_completed()
    threading.Timer(0.02, gate.set).start()
    lane.drain(time.monotonic() + 5.0)
    assert not lane.is_busy()
    for work in works:
        work.wait()
    own = lane.start(lambda _: lane.drain(time.monotonic() + 60.0), Work())
    assert own.wait(5.0)
    lane.drain(time.monotonic())
    lane.close(CollectiveError("over"))


def test_an_interrupt_while_a_group_drains_ends_it_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(self: Lane, until: float) -> None:
        raise KeyboardInterrupt

    group, closed = dist.ProcessGroup(0, 1), []
    group._carriers["gloo"] = SimpleNamespace(close=lambda: closed.append(True))
    monkeypatch.setattr(Lane, "drain", interrupted)
    with pytest.raises(KeyboardInterrupt):
        group.shutdown()
    assert closed == [True]
    group.shutdown()


def test_a_job_runs_in_its_callers_thread_unless_others_are_queued() -> None:
    lane, begun, gate = Lane("lane"), threading.Event(), threading.Event()
    assert lane.run(lambda number: (number, threading.current_thread())) == (
        0,
        threading.current_thread(),
    )
    slow = lane.start(lambda number: (begun.set(), gate.wait()), Work())
    # Once the slow job runs, the queue is empty, so that the next job in it is that of `call`.
    assert begun.wait(30)
    found: list[Any] = []

    def call() -> None:
        found.append(lane.run(lambda number: (number, threading.current_thread().name)))

    thread = threading.Thread(target=call)
    thread.start()
    while len(lane._jobs) < 1:
        thread.join(0.001)
    gate.set()
    thread.join()
    slow.wait()
    assert found == [(2, "lane")] and lane.count == 3
    with pytest.raises(ZeroDivisionError):
        lane.run(lambda number: 1 // 0)
    assert lane.run(lambda number: number) == 4
    lane.close(CollectiveError("over"))
    with pytest.raises(CollectiveError, match="over"):
        lane.run(lambda number: number)
    with pytest.raises(CollectiveError, match="over"):
        lane.start(lambda number: number, Work())


def test_a_finished_work_has_ended_well() -> None:
    assert finished([1]).result() == [1] and finished().is_success()
    assert Work().source_rank() == -1 and not Work().is_completed()


def test_a_lane_is_busy_while_a_job_runs_or_waits() -> None:
    lane, gate = Lane("lane"), threading.Event()
    assert not lane.is_busy()
    assert lane.run(lambda number: lane.is_busy()) is True
    assert not lane.is_busy()
    works = [lane.start(lambda number: gate.wait(), Work()) for _ in range(2)]
    assert lane.is_busy()
    gate.set()
    for work in works:
        work.wait()
    # Later jobs wait for the job that runs in its caller's thread.
    order: list[str] = []

    def job(number: int) -> None:
        late.append(lane.start(lambda number: order.append("later"), Work()))
        late[0]._finished.wait(0.01)
        order.append("first")

    late: list[Work] = []
    lane.run(job)
    late[0].wait()
    assert order == ["first", "later"]
    lane.close(CollectiveError("over"))
    lane.join()


def test_a_lane_without_jobs_has_no_thread_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fastdist.distributed.process_group.work._IDLE_S", 0.005)
    lane = Lane("lane")
    for number in range(2):
        found: list[int] = []
        lane.start(found.append, Work()).wait()
        thread = lane._thread
        if thread is not None:
            assert thread.name == "lane" and thread.daemon
            thread.join(10.0)
        assert lane._thread is None and found == [number]


def test_futures_of_works_are_done_with_them() -> None:
    work = Work(["it"])
    future, called = work.get_future(), list[str]()
    work._when_finished(lambda: called.append("first"))
    assert not future.done() and called == [] and not work.is_success()
    work._finish()
    work._when_finished(lambda: called.append("second"))
    assert future.wait() == ["it"] and called == ["first", "second"] and work.is_success()
    for timeout in (None, 0, timedelta(0), 5, timedelta(seconds=5)):
        assert work.wait(timeout) is True
    late = Work()
    for short in (0.001, timedelta(milliseconds=1)):
        with pytest.raises(CollectiveTimeoutError, match=r"did not end within 0\.001 s, which"):
            late.wait(short)
    late._finish(CollectiveError("why"))
    assert late.is_completed() and not late.is_success()
    with pytest.raises(CollectiveError, match="why"):
        late.synchronize()
