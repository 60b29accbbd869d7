"""To join, call, wait and leave takes O(n log n) work in a group, and O(log n) in one worker.

Agents are real; their sockets, threads, clock and connections to the store are simulated. Each
phase is measured at sizes that double: messages and their bytes, requests to the store and their
bytes, and lines of fastdist's Python code (work_counts.py). The store's process, which does O(n)
work, is counted separately. Counting lines takes longer than running them, so the short run samples
four workers: the root of the barrier tree, one of its children, and the last two ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest

from fastdist.core.errors import ShutdownIncomplete, StoreTimeoutError
from fastdist.distributed import rpc
from fastdist.distributed.rpc import leaving
from fastdist.distributed.rpc.workers import joining
from fastdist.distributed.rpc.workers import worker as lives
from fastdist.distributed.rpc.workers.directory import StoreDirectory
from fastdist.distributed.rpc.workers.workers import Workers
from fastdist.distributed.store import membership
from tests.distributed.rpc.simulation import simulated_group
from tests.distributed.rpc.simulation.simulated_calls import name_of
from tests.distributed.rpc.simulation.simulated_fixtures import group_ends, machine  # noqa: F401
from tests.distributed.rpc.simulation.simulated_group import Group, Worker
from tests.distributed.rpc.simulation.work_counts import COUNTED, PACKAGE, Counts

# At these sizes n log n grows by a factor of 2.2 to 2.3 when n doubles; n * n by 4.
MOST_OF_ALL = 2.4
# The work of one worker may grow by this factor when the group doubles.
MOST_OF_ONE = 1.5
# The code that a sampled worker runs may grow by so many lines for each added member. A loop over
# all members takes at least one line for each.
LINES_A_MEMBER = 0.5
# How long a worker waits for the last worker: notices are printed after 5 and 15 s.
WAITS_S = 25.0
# The rank of the worker that is killed: a child of the root.
LOST = 2


class Founders(Group):
    """Workers of a static group that join like the workers of a job."""

    def _let_founders_meet(self) -> None:
        for join in (self._come, self._join):
            for worker in self.workers:
                worker.run(join, (worker,))

    def _come(self, worker: Worker) -> None:
        with suppress(StoreTimeoutError):
            StoreDirectory(worker.agent.store).meet(worker.agent.me, [], 0.0, may_follow=False)

    def _join(self, worker: Worker) -> None:
        joined = joining.join_static(worker.agent.store, worker.agent.me, 5.0)
        vars(worker.agent.group).update(vars(joined))
        worker.agent.workers._take_in(joined.members)


def sample(size: int) -> dict[int, str]:
    """Return the sampled ranks of a group, and what each of them is."""
    return {
        0: "the root",
        1: "a child of the root",
        size - 2: "the last but one",
        size - 1: "the last",
    }


def count(size: int, sampled: Collection[int] = ()) -> Counts:
    """Run a group of this size that joins, calls, loses a worker, waits and leaves."""
    counts = Counts(sampled or sample(size))
    with counts.counting():
        with counts.phase("join"):
            group = Founders(1, size)
        world, ended = group.world, list[str]()
        called: list[str] = []

        def call_next(worker: Worker) -> None:
            # Call a worker that is rarely a neighbour in the tree, since neighbours know each
            # other.
            other = worker.agent.get_worker_info(f"w{(worker.rank + size // 2) % size}")
            called.append(worker.agent.call(other, name_of, (), {}, 0.0))

        def leave(worker: Worker) -> None:
            with suppress(ShutdownIncomplete):  # it names the lost worker
                rpc.shutdown()
            ended.append(worker.name)

        with counts.phase("call"):
            for worker in group.workers:
                world.soon(worker, call_next, worker)
            world.run_until(world.now + 5.0)
        # All workers but the last wait in their shutdown, like workers that only serve.
        *others, last = group.workers
        with counts.phase("wait"):
            for worker in others:
                world.soon(worker, leave, worker)
            world.run_until(world.now + WAITS_S)
        with counts.phase("lose"):
            others[LOST].crash()
            group.tell_that_process_ended(others[LOST])
            world.run_until(world.now + 5.0)
        assert (len(called), ended) == (size, [])
        with counts.phase("leave"):
            world.soon(last, leave, last)
            world.run_until(world.now + 10.0)
        assert len(ended) == size - 1
        simulated_group.end_group()
    return counts


def count_changes(size: int) -> Counts:
    """Run a dynamic group of this size whose members join, lose one, and read who is there."""
    counts = Counts(())
    with counts.counting():
        with counts.phase("join"):
            group = Group(1, size, kind="dynamic")
        world = group.world

        def refresh() -> None:
            for worker in group.living():
                world.soon(worker, worker.agent.workers.refresh)
            world.run_until(world.now + 1.0)

        refresh()  # the first time, a worker reads all members
        with counts.phase("lose"):
            lost = group.workers[LOST]
            for caller in group.workers[:2]:
                world.soon(caller, caller.agent.workers.reach, lost.rank)
            world.run_until(world.now + 1.0)
            lost.crash()
            group.tell_that_process_ended(lost)
            world.run_until(world.now + 5.0)
        with counts.phase("refresh"):
            refresh()
        simulated_group.end_group()
    return counts


def require_growth(*sizes: int, of_all: bool = False, count: Callable[..., Counts] = count) -> None:
    """Compare the counts at each size with the counts at half the size."""
    counted = {size: count(size, range(size)) if of_all else count(size) for size in sizes}
    wrong = []
    for half, size in pairwise(sizes):
        less, more = counted[half], counted[size]
        for phase in more.phases:
            for what in COUNTED:
                for whose, bound, get in (
                    ("all workers", MOST_OF_ALL, Counts.total),
                    ("the store", MOST_OF_ALL, Counts.of_store),
                    ("one worker", MOST_OF_ONE, Counts.most),
                ):
                    before, now = get(less, phase, what), get(more, phase, what)
                    # Lines of a few workers say nothing about the total.
                    is_known = of_all or what != "lines" or whose == "one worker"
                    if is_known and now > bound * before:
                        text = f"{what} of {whose}: {before} at {half}, {now} at {size}"
                        wrong.append(f"{phase}: {text}")
            for (one, whose), other in zip(sample(half).items(), sample(size), strict=True):
                before, now = less.of_rank(one, phase, "lines"), more.of_rank(other, phase, "lines")
                if now > before + LINES_A_MEMBER * (size - half):
                    wrong.append(f"{phase}: lines of {whose}: {before} at {half}, {now} at {size}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.one_in(8)
def test_what_a_group_does_grows_as_n_log_n_and_what_a_worker_does_as_log_n() -> None:
    require_growth(128, 256)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_what_a_large_group_does_grows_as_n_log_n_and_what_a_worker_does_as_log_n() -> None:
    require_growth(256, 512, 1024, of_all=True)


@pytest.mark.one_in(8)
def test_what_changes_in_a_dynamic_group_is_read_without_all_members() -> None:
    require_growth(32, 64, count=count_changes)


# Two sizes at which the last two workers have the same place in the tree.
SIZES = (36, 64)


@pytest.mark.one_in(8)
def test_what_grows_with_the_square_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joining, "_wanted_by", lambda me: [*range(me.world_size)])
    with pytest.raises(AssertionError, match="join: request bytes of all workers"):
        require_growth(*SIZES)


@pytest.mark.one_in(8)
def test_one_line_for_each_member_in_one_worker_is_refused_in_each_phase(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for owner, name in (
        (joining, "join_static"),
        (lives.Worker, "_greet"),
        (leaving.Leaving, "for_whom_it_waits"),
        (Workers, "handle_lost"),
        (leaving.Leaving, "leave"),
    ):
        monkeypatch.setattr(owner, name, with_a_loop(getattr(owner, name)))
    with pytest.raises(AssertionError) as refused:
        require_growth(*SIZES)
    # Each method runs in one of these phases; only the sampled worker of the last "leave" begins it
    # there.
    for where in (
        "join: lines of the last but one",
        "call: lines of the last",
        "wait: lines of the last but one",
        "lose: lines of the root",
        "leave: lines of the last",
    ):
        assert f"{where}:" in str(refused.value)


@pytest.mark.one_in(8)
def test_all_members_after_each_change_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    changes_since = membership.Group.changes_since
    monkeypatch.setattr(membership.Group, "changes_since", lambda self, _: changes_since(self, 0))
    with pytest.raises(AssertionError, match="refresh: request bytes of one worker"):
        require_growth(32, 64, count=count_changes)


def with_a_loop(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that first runs a line for each member."""

    def run(*arguments: Any) -> Any:
        loop(simulated_group.groups[-1].size)
        return function(*arguments)

    return run


def loop(count: int) -> None:
    """Run one line per member; its code counts as fastdist's."""
    for _ in range(count):
        pass


loop.__code__ = loop.__code__.replace(co_filename=f"{PACKAGE}loop.py")
