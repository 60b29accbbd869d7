"""To join, call, wait and leave takes O(n log n) work in a group, and O(log n) in one worker.

Agents are real; their sockets, threads, clock and connections to the store are simulated. Each
phase is measured at sizes that double: messages and their bytes, requests to the store and their
bytes, and operations, which are calls of fastdist's Python functions. The store's process, which
does O(n) work, is counted separately. Counting operations takes longer than running them, so the
short run samples three workers: the root of the barrier tree, one of its children, the last rank.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from typing import Any

import pytest

from fastdist.core.errors import StoreTimeoutError
from fastdist.distributed import rpc
from fastdist.distributed.rpc.workers import joining
from fastdist.distributed.rpc.workers.directory import StoreDirectory
from fastdist.distributed.store.state import StoreState
from tests.distributed.rpc.simulation import simulated_group
from tests.distributed.rpc.simulation.simulated_calls import name_of
from tests.distributed.rpc.simulation.simulated_fixtures import group_ends, machine  # noqa: F401
from tests.distributed.rpc.simulation.simulated_group import Group, SharedStore, Worker
from tests.distributed.rpc.simulation.simulated_network import Link
from tests.distributed.rpc.simulation.simulated_world import World, worlds

PHASES = ("join", "call", "wait", "leave")
COUNTED = ("messages", "message bytes", "requests", "request bytes", "operations")
# At these sizes n log n grows by a factor of 2.2 to 2.3 when n doubles; n * n by 4.
MOST_OF_ALL = 2.4
# The work of one worker may grow by this factor when the group doubles.
MOST_OF_ONE = 1.5
STORE = "the store"
# How long a worker waits for the last worker: notices are printed after 5, 10 and 20 s.
WAITS_S = 25.0


class Counts:
    """Counts per worker and of the store; operations are counted only for the `sampled` ranks."""

    def __init__(self, sampled: Collection[int]) -> None:
        self._sampled = {f"w{rank}.0" for rank in sampled}
        self.of: dict[tuple[str, str], Counter[str]] = {
            (phase, what): Counter() for phase in PHASES for what in COUNTED
        }
        self._phase = ""
        self._is_in_store = False

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count in the block under a phase's name."""
        self._phase = name
        try:
            yield
        finally:
            self._phase = ""

    def note(self, what: str, amount: int = 1, who: str = "") -> None:
        """Add to a worker's count; the default is the worker whose turn it is."""
        if self._phase and (who or (who := self._who())):
            self.of[self._phase, what][who] += amount

    def total(self, phase: str, what: str) -> int:
        """Return the sum over all workers."""
        return sum(number for who, number in self.of[phase, what].items() if who != STORE)

    def most(self, phase: str, what: str) -> int:
        """Return the largest count of a worker."""
        return max((n for who, n in self.of[phase, what].items() if who != STORE), default=0)

    def of_store(self, phase: str, what: str) -> int:
        """Return the count of the store."""
        return self.of[phase, what][STORE]

    def _who(self) -> str:
        if self._is_in_store:
            return STORE
        current = worlds[-1].current if worlds else None
        return "" if current is None else current.name  # work of the simulation itself

    def count_call(self, frame: Any, event: str, argument: object) -> None:
        """Count a call of a function of fastdist; used as a thread's profile function."""
        if event == "call" and "/fastdist/" in frame.f_code.co_filename:
            self.note("operations")

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count simulated messages, requests to the store, and function calls."""
        with pytest.MonkeyPatch.context() as patch:
            # As in large groups, most members are looked up only when needed.
            patch.setattr(joining, "MOST_READ", 8)
            patch.setattr(Link, "send", self._counted(Link.send))
            patch.setattr(Link, "send_back", self._counted(Link.send_back))
            ask, submit = SharedStore._ask, StoreState.submit

            def counted_ask(store: Any, op: Any, arguments: Any, timeout: Any = None) -> Any:
                frames: list[bytes] = []
                try:
                    frames = ask(store, op, arguments, timeout)
                    return frames
                finally:
                    size = sum(map(len, [*arguments, *frames]))
                    for who in ("", STORE):
                        self.note("requests", 1, who)
                        self.note("request bytes", size, who)

            def in_store(*request: Any) -> Any:
                self._is_in_store = True
                try:
                    return submit(*request)
                finally:
                    self._is_in_store = False

            patch.setattr(SharedStore, "_ask", counted_ask)
            patch.setattr(StoreState, "submit", in_store)
            enter = World.enter

            def counted_enter(world: World, process: Any) -> None:
                enter(world, process)
                is_sampled = process is not None and process.name in self._sampled
                # This thread runs the process until another process is entered.
                sys.setprofile(self.count_call if is_sampled else None)

            patch.setattr(World, "enter", counted_enter)
            try:
                yield
            finally:
                sys.setprofile(None)

    def _counted(self, send: Any) -> Any:
        def counted(link: Any, *arguments: Any) -> Any:
            for end in (link.client, link.server) if link.up else ():
                self.note("messages", 1, end.name)
                self.note("message bytes", sum(map(len, arguments[-1])), end.name)
            return send(link, *arguments)

        return counted


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


def count(size: int, sampled: Collection[int] = ()) -> Counts:
    """Run a group of this size that joins, calls, waits and leaves; return the counts."""
    counts = Counts(sampled or (0, 1, size - 1))
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
        assert (len(called), ended) == (size, [])
        with counts.phase("leave"):
            world.soon(last, leave, last)
            world.run_until(world.now + 10.0)
        assert len(ended) == size
        simulated_group.end_group()
    return counts


def require_growth(*sizes: int, of_all: bool = False) -> None:
    """Compare the counts at each size with the counts at half the size."""
    counted = {size: count(size, range(size) if of_all else ()) for size in sizes}
    wrong = []
    for half, size in pairwise(sizes):
        less, more = counted[half], counted[size]
        for phase in PHASES:
            for what in COUNTED:
                for told, bound, get in (
                    ("all workers", MOST_OF_ALL, Counts.total),
                    ("the store", MOST_OF_ALL, Counts.of_store),
                    ("one worker", MOST_OF_ONE, Counts.most),
                ):
                    before, now = get(less, phase, what), get(more, phase, what)
                    # Operations of a few workers say nothing about the total.
                    is_known = of_all or what != "operations" or told == "one worker"
                    if is_known and now > bound * before:
                        text = f"{what} of {told}: {before} at {half}, {now} at {size}"
                        wrong.append(f"{phase}: {text}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.one_in(3)
def test_what_a_group_does_grows_as_n_log_n_and_what_a_worker_does_as_log_n() -> None:
    require_growth(64, 128)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_what_a_large_group_does_grows_as_n_log_n_and_what_a_worker_does_as_log_n() -> None:
    require_growth(256, 512, 1024, of_all=True)


@pytest.mark.one_in(3)
def test_what_grows_with_the_square_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joining, "_wanted_by", lambda me: [*range(me.world_size)])
    with pytest.raises(AssertionError, match="join: request bytes of all workers"):
        require_growth(12, 24)
