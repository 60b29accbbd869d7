"""Whatever breaks: a value lives while somebody holds a reference to it, and no longer."""

from __future__ import annotations

import gc
import logging
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

from fastdist.core.future import Future
from fastdist.distributed.rpc.functions import async_execution
from fastdist.distributed.rpc.rref import RRef
from tests.distributed.rpc.simulated_group import Worker, here, simulated_machine
from tests.distributed.rpc.simulated_world import Crashed
from tests.distributed.rpc.test_simulation import BUSY_S, HORIZON_S, Scenario

# The last call has ended by then, and with it what its function kept.
_QUIET_S = 40.0


class Value:
    pass


class References(Scenario):
    """One seed's calls that bring references, or are answered with some."""

    def __init__(self, seed: int, *, quiet: bool = False) -> None:
        self.kept: dict[str, list[RRef[Any]]] = defaultdict(list)
        self.made: set[int] = set()
        super().__init__(seed, quiet=quiet)

    def run(self) -> None:
        self.world.run_until(self.world.now + BUSY_S + _QUIET_S)
        self.broken = self.find_broken()
        self.kept.clear()
        self.world.run_until(self.world.now + HORIZON_S)

    def begin_one(self) -> None:
        rng = self.world.rng
        worker = rng.choice(self.group.workers)
        if worker.dead or worker.left or worker.frozen:
            return
        self.world.soon(worker, self.make_call, worker, rng.randrange(self.group.size))

    def make_call(self, worker: Worker, to: int) -> None:
        rng, agent = self.world.rng, worker.agent
        timeout_s = rng.choice((0.0, 0.02, 0.3, 0.3, 2.0, 8.0))
        function = rng.choice((keep, keep, drop, give, give, give_later, pass_on))
        info = agent.get_worker_info(to)
        try:
            arguments = (rng.choice((0.0, 0.3, 3.0)), self.one_of(worker), self.one_of(worker))
            kind = rng.choice(("call", "call_async", "call_async", "remote"))
            if kind == "remote":
                rref = agent.rrefs.create_remote(info, function, arguments, {}, timeout_s)
                if rng.random() < 0.5:
                    self.kept[worker.name].append(rref)
            elif kind == "call" and not self.is_blocking:
                self.is_blocking = True
                try:
                    self.keep_some(worker, agent.call(info, function, arguments, {}, timeout_s))
                finally:
                    self.is_blocking = False
            else:
                future = agent.call_async(info, function, arguments, {}, timeout_s)
                future.add_done_callback(lambda done: self.keep_some(worker, done))
        except Crashed:
            raise
        except Exception:
            logging.getLogger(__name__).info("a call failed", exc_info=True)

    def keep_some(self, worker: Worker, answer: Any) -> None:
        if isinstance(answer, Future):
            answer = None if answer.exception() else answer.value()
        if answer is not None and self.world.rng.random() < 0.5:
            self.kept[worker.name].extend(answer)

    def one_of(self, worker: Worker) -> RRef[Any]:
        kept = self.kept[worker.name]
        return self.world.rng.choice(kept) if kept and self.world.rng.random() < 0.5 else new()

    def check(self) -> None:
        if not all(self.is_clean(worker) for worker in self.group.workers):
            self.forget_frames()
            gc.collect()
            self.world.run_until(self.world.now + HORIZON_S)
        assert not self.broken, self.broken
        for worker in self.group.workers:
            info = worker.agent.rrefs.get_debug_info()
            assert self.is_clean(worker), f"{worker.name}: {info}"
            if not worker.dead:
                self.check_that_nothing_is_left(worker)

    def forget_frames(self) -> None:
        """Let errors that are values hold no frames: in one thread these are everybody's."""
        for worker in self.group.workers:
            for owned in worker.agent.rrefs.owned.values():
                error = owned.future.exception() if owned.future.done() else None
                if error is not None:
                    error.__traceback__ = None

    def is_clean(self, worker: Worker) -> bool:
        info = worker.agent.rrefs.get_debug_info()
        return self.is_out(worker) or set(info.values()) == {"0"}

    def is_out(self, worker: Worker) -> bool:
        """Whether a worker has ended, or others have declared it lost."""
        rank = worker.rank
        known = [other.agent._peers.get(rank) for other in self.group.workers if not other.dead]
        return worker.dead or worker.left or any(peer and peer.is_dead for peer in known)

    def find_broken(self) -> list[str]:
        """Return references that are held to values that are gone though their owners live."""
        owners = {worker.rank: worker for worker in self.group.workers if not self.is_out(worker)}
        return [
            f"{rref!r} at {worker.name}"
            for worker in self.group.workers
            for rref in self.kept[worker.name]
            if not self.is_out(worker) and not rref._is_deleted
            if rref._owner.id in owners and rref._id in self.made
            if rref._id not in owners[rref._owner.id].agent.rrefs.owned._by_id
        ]


scenarios: list[References] = []


def new() -> RRef[Any]:
    rref = RRef(Value())
    scenarios[-1].made.add(rref._id)
    return rref


def keep(seconds: float, *rrefs: RRef[Any]) -> None:
    scenarios[-1].kept[here().name].extend(rrefs)


def drop(seconds: float, *rrefs: RRef[Any]) -> None:
    pass


def give(seconds: float, *rrefs: RRef[Any]) -> tuple[RRef[Any], ...]:
    return (new(), *rrefs[:1])


@async_execution
def give_later(seconds: float, *rrefs: RRef[Any]) -> Future[Any]:
    answer: Future[Any] = Future()
    world, worker = scenarios[-1].world, here()
    world.at(world.now + seconds, worker, lambda: answer.set_result((new(), *rrefs[:1])))
    return answer


@async_execution
def pass_on(seconds: float, *rrefs: RRef[Any]) -> Future[Any]:
    agent, size = here().agent, scenarios[-1].group.size
    to = agent.get_worker_info((here().rank + 1) % size)
    return agent.call_async(to, keep, (0.0, *rrefs), {}, 1.0)


@pytest.fixture(scope="module", autouse=True)
def machine() -> Iterator[None]:
    logging.disable(logging.WARNING)
    with simulated_machine():
        yield
    scenarios.clear()
    logging.disable(logging.NOTSET)


def try_seeds(seeds: range) -> None:
    for seed in seeds:
        scenarios[:] = [References(seed)]
        scenarios[-1].run()
        try:
            scenarios[-1].check()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error


def test_whatever_breaks_values_live_as_long_as_their_references() -> None:
    try_seeds(range(300))


def test_an_answer_that_comes_twice_brings_its_references_once() -> None:
    scenario = References(0, quiet=True)
    scenarios[:] = [scenario]
    caller, callee = scenario.group.workers[:2]
    client, pool, read = caller.agent.client, caller.agent.pool, list[tuple[Any, Any]]()
    came = client.answer_came

    def come_twice(peer: Any, frames: list[Any]) -> None:
        for _ in range(2):
            came(peer, [*frames])

    def put_off(function: Any, *arguments: Any) -> bool:
        read.append((function, arguments))
        return True

    client.answer_came, pool.submit_uncounted = come_twice, put_off
    future = caller.agent.call_async(caller.agent.get_worker_info(1), give, (0.0,), {}, 0.0)
    scenario.world.run_until(scenario.world.now + 1.0)
    # Threads come to what they are to do in any order.
    for function, arguments in reversed(read):
        caller.run(function, arguments)
    scenario.world.run_until(scenario.world.now + 1.0)
    (rref,) = future.value()
    assert [owned.rref_id for owned in callee.agent.rrefs.owned.values()] == [rref._id]


# In parts: no test may take longer than pytest's time for one.
@pytest.mark.slow
@pytest.mark.parametrize("first", range(300, 30_000, 1000))
def test_whatever_breaks_values_live_as_long_as_their_references_for_many_seeds(first: int) -> None:
    try_seeds(range(first, first + 1000))
