"""Whatever breaks: no call runs twice, every caller hears within its bound, nothing is left."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import permutations
from typing import Any

import pytest

from fastdist.core.errors import GivenUpError, RpcTimeoutError, WorkerLostError
from fastdist.core.future import Future
from fastdist.distributed.rpc.functions import async_execution
from fastdist.distributed.rpc.message_types import MessageType
from tests.distributed.rpc.simulated_group import Group, Worker, simulated_machine
from tests.distributed.rpc.simulated_world import Crashed

BUSY_S = 20.0
HORIZON_S = 120.0
# A deadline is met within a bucket of the timeouts, and the lateness of a thread or two.
LATE_S = 0.05
# Whoever waits for the dead hears of it in this time: what a frozen peer is given, and a little.
DEATH_S = 11.0


@dataclass
class Op:
    """One call, what became of it, and where it ran."""

    key: int
    worker: Worker
    to: int
    timeout_s: float
    began: float
    frozen_s_before: float = 0.0
    ended: list[tuple[float, Any]] = field(default_factory=list)


class Scenario:
    """One seed's group, calls and faults."""

    def __init__(self, seed: int, *, quiet: bool = False) -> None:
        self.group = Group(seed, on_one_host=seed % 2 == 0)
        self.world = self.group.world
        self.ops: list[Op] = []
        self.runs: dict[int, list[str]] = defaultdict(list)
        self.is_blocking = False
        rng = self.world.rng
        start = self.world.now
        if quiet:
            return
        for _ in range(rng.randint(4, 16)):
            self.world.at(start + rng.random() * BUSY_S, None, self.begin_one)
        for _ in range(rng.choice((0, 1, 1, 2, 3))):
            self.world.at(start + rng.random() * BUSY_S, None, self.break_something)
        if rng.random() < 0.5:
            self.world.at(start + rng.random() * BUSY_S, None, self.storm)

    def run(self) -> None:
        self.world.run_until(self.world.now + BUSY_S + HORIZON_S)

    def begin_one(self) -> None:
        rng = self.world.rng
        worker = rng.choice(self.group.workers)
        if worker.dead or worker.left:
            return
        if worker.frozen:
            self.world.at(self.world.now + 0.5, None, self.begin_one)
            return
        timeout_s = rng.choice((0.0, 0.0, 0.3, 2.0, 8.0, 30.0))
        to = rng.randrange(self.group.size)
        op = Op(len(self.ops), worker, to, timeout_s, self.world.now, worker.frozen_s)
        self.ops.append(op)
        seconds = rng.choice((0.0, 0.0, 0.01, 1.0, 5.0, 15.0))
        function = rng.choice((call, call, call_that_answers_later, call_back))
        if rng.random() < 0.07:
            function = call_that_raises
        if rng.random() < 0.4:
            self.world.soon(worker, self.block_on, op, function, seconds)
        else:
            self.world.soon(worker, self.start, op, function, seconds)

    def start(self, op: Op, function: Any, seconds: float) -> None:
        agent = op.worker.agent
        info = agent.get_worker_info(op.to)
        try:
            future = agent.call_async(info, function, (op.key, seconds), {}, op.timeout_s)
        except Exception as error:
            self.end(op, error)
        else:
            future.add_done_callback(lambda done: self.end(op, done.exception()))

    def block_on(self, op: Op, function: Any, seconds: float) -> None:
        if self.is_blocking:
            # It would return before the one that it waits inside of.
            self.start(op, function, seconds)
            return
        agent = op.worker.agent
        info = agent.get_worker_info(op.to)
        self.is_blocking = True
        try:
            agent.call(info, function, (op.key, seconds), {}, op.timeout_s)
        except Crashed:
            raise
        except Exception as error:
            self.end(op, error)
        else:
            self.end(op, None)
        finally:
            self.is_blocking = False

    def end(self, op: Op, error: BaseException | None) -> None:
        op.ended.append((self.world.now, error))

    def break_something(self) -> None:
        rng = self.world.rng
        worker = rng.choice(self.group.workers)
        kind = rng.choice(("freeze", "freeze", "cut", "cut", "link", "link", "crash", "leave"))
        if kind == "freeze":
            worker.freeze(rng.choice((0.5, 2.2, 3.0, 6.0, 15.0)))
        elif kind == "cut":
            other = rng.choice(self.group.workers)
            self.group.network.cut(worker, other, rng.choice((0.5, 2.2, 3.0, 6.0, 15.0)))
        elif kind == "link":
            self.group.network.break_one()
        elif kind == "leave":
            worker.leave()
        else:
            worker.crash()
            if rng.random() < 0.5:
                self.group.tell_that_process_ended(worker.rank)
            if rng.random() < 0.5:
                when = self.world.now + rng.choice((0.0, 0.5, 5.0))
                self.world.at(when, None, self.group.restart, worker.rank)

    def storm(self) -> None:
        """Let connections break again and again while many calls begin, on a slow network."""
        rng, network = self.world.rng, self.group.network
        network.delays_s = (0.0002, 0.05, 0.3)
        for _ in range(8):
            self.world.at(self.world.now + rng.random() * 2, None, self.begin_one)
        for _ in range(rng.randint(3, 12)):
            self.world.at(self.world.now + rng.random() * 3, None, network.break_one)

    def check(self) -> None:
        for key, lives in self.runs.items():
            assert len(lives) == 1, f"call {key} ran at {lives}"
        for op in self.ops:
            if op.worker.dead:
                assert len(op.ended) <= 1
                continue
            assert len(op.ended) == 1, f"call {op.key} ended {len(op.ended)} times"
            when, error = op.ended[0]
            callee = self.group.workers[op.to]
            if callee.died_at is not None and op.worker.rank != op.to and callee.died_at < when:
                after_s = when - max(callee.died_at, op.began) - op.worker.frozen_s
                assert after_s < DEATH_S, f"call {op.key} ended {after_s:.1f} s after a death"
            if op.timeout_s:
                frozen_s = op.worker.frozen_s - op.frozen_s_before
                late_s = when - op.began - op.timeout_s - frozen_s
                assert late_s < LATE_S, f"call {op.key} ended {late_s:.3f} s late"
            if error is None or isinstance(error, KeyError):
                assert len(self.runs[op.key]) == 1, f"call {op.key} succeeded without running"
            is_own = not getattr(error, "__notes__", ())  # not that of a call by the callee
            if isinstance(error, WorkerLostError) and is_own and not error.may_have_run:
                assert not self.runs[op.key], f"call {op.key} had run"
        for worker in self.group.workers:
            if not worker.dead:
                self.check_that_nothing_is_left(worker)

    def check_that_nothing_is_left(self, worker: Worker) -> None:
        agent = worker.agent
        assert agent._server.num_rubbish == 0
        assert len(agent.client.timeouts) == 0
        assert not agent.client._expiring
        assert agent.counts.activity()[0] == 0, agent.get_metrics()
        for peer in agent._peers.values():
            assert peer.pipe.num_pending() == 0
            assert peer.pipe._lanes_out == 0
            assert peer.credit.under_way() == (0, 0)


scenarios: list[Scenario] = []


def call(key: int, seconds: float) -> int:
    scenario = scenarios[-1]
    current = scenario.world.current
    assert current is not None
    scenario.runs[key].append(current.name)
    return key


def call_that_raises(key: int, seconds: float) -> None:
    call(key, seconds)
    raise KeyError(key)


@async_execution
def call_that_answers_later(key: int, seconds: float) -> Future[int]:
    call(key, seconds)
    answer: Future[int] = Future()
    world = scenarios[-1].world
    world.at(world.now + seconds, world.current, answer.set_result, key)
    return answer


@async_execution
def call_back(key: int, seconds: float) -> Future[Any]:
    call(key, seconds)
    worker = scenarios[-1].world.current
    assert isinstance(worker, Worker)
    agent = worker.agent
    to = agent.get_worker_info((worker.rank + 1) % scenarios[-1].group.size)
    inner = agent.call_async(to, call_that_answers_later, (1000 + key, seconds), {}, 20.0)
    answer: Future[Any] = Future()
    inner.add_done_callback(lambda done: answer.try_complete(key, done.exception()))
    return answer


@pytest.fixture(scope="module", autouse=True)
def machine() -> Iterator[None]:
    logging.disable(logging.WARNING)
    with simulated_machine():
        yield
    logging.disable(logging.NOTSET)


def try_seed(seed: int) -> None:
    scenarios[:] = [Scenario(seed)]
    scenarios[-1].run()
    try:
        scenarios[-1].check()
    except AssertionError as error:
        raise AssertionError(f"seed {seed}: {error}") from error


def test_whatever_breaks_calls_run_at_most_once_and_all_callers_hear() -> None:
    for seed in range(1000):
        try_seed(seed)


# In parts: no test may take longer than pytest's time for one.
@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 100_000, 3000))
def test_whatever_breaks_calls_run_at_most_once_and_all_callers_hear_for_many_seeds(
    first: int,
) -> None:
    for seed in range(first, first + 3000):
        try_seed(seed)


def test_a_cancelled_call_that_waits_for_a_thread_does_not_run() -> None:
    scenario = Scenario(0, quiet=True)
    scenarios[:] = [scenario]
    caller, callee = scenario.group.workers[:2]
    callee.serve = lambda: None
    future = caller.agent.call_async(caller.agent.get_worker_info(1), call, (1, 0.0), {}, 0.5)
    scenario.world.run_until(scenario.world.now + 0.1)
    request = callee.agent._server.take()
    assert request is not None
    scenario.world.run_until(scenario.world.now + 1.0)
    assert isinstance(future.exception(), RpcTimeoutError)
    # All that came since is the word that it was given up.
    word = callee.agent._server.take()
    assert word is not None and word.argument.message.type == MessageType.RREF_GIVE_UP_REQ
    assert callee.agent._server.take() is None
    assert request.argument.deadline == 0.0
    request.function(request.argument)
    assert not scenario.runs
    assert callee.agent.counts.activity()[0] == 0


def test_who_is_stopped_again_and_again_takes_nobody_for_silent() -> None:
    for seed in range(60):
        scenario = Scenario(seed, quiet=True)
        scenarios[:] = [scenario]
        world, (stutterer, other) = scenario.world, scenario.group.workers[:2]
        to = stutterer.agent.get_worker_info(1)
        stutterer.agent.call_async(to, call, (1, 0.0), {}, 5.0)
        world.run_until(world.now + 1.0)
        for _ in range(5):
            stutterer.freeze(4.0)
            world.run_until(world.now + 4.01)
        lost = stutterer.agent._peers[1].why_lost
        assert "no sign of life" not in lost and "nobody listens" not in lost, (
            f"seed {seed}: {lost}"
        )
        assert not other.dead


def test_who_was_frozen_for_too_long_hears_of_it_and_nothing_of_it_runs_any_more() -> None:
    for seed in range(100):
        scenario = Scenario(seed, quiet=True)
        scenarios[:] = [scenario]
        world, (sleeper, *others) = scenario.world, scenario.group.workers
        rng = world.rng
        met = others[: rng.randint(1, len(others))]
        for number, other in enumerate(met):
            call_and_forget(sleeper, other, number)
        world.run_until(world.now + 1.0)
        for number, other in enumerate(met):
            # Those that are under way, and those that it begins when it wakes up.
            world.at(world.now + 0.1, sleeper, call_and_forget, sleeper, other, 100 + number)
            world.at(world.now + 3.0, sleeper, call_and_forget, sleeper, other, 200 + number)
        sleeper.freeze(rng.choice((12.0, 15.0, 40.0)))
        while sleeper.frozen:
            world.run_until(world.now + 0.1)
        world.run_until(world.now + 6.0)
        error = sleeper.agent.peers.given_up
        assert error is not None and "was declared lost by worker" in str(error), f"seed {seed}"
        for number, other in enumerate(met):
            assert 100 + number not in scenario.runs and 200 + number not in scenario.runs
            future = call_and_forget(sleeper, other, 300 + number)
            assert isinstance(future.exception(), GivenUpError), f"seed {seed}"
            assert other.agent.peers.given_up is None
        scenario.check_that_nothing_is_left(sleeper)


def test_a_cut_between_two_ends_neither_while_a_third_is_in_touch_with_both() -> None:
    for seed in range(100):
        scenario = Scenario(seed, quiet=True)
        scenarios[:] = [scenario]
        world, workers = scenario.world, scenario.group.workers
        for number, (one, other) in enumerate(permutations(workers, 2)):
            call_and_forget(one, other, number)
        world.run_until(world.now + 1.0)
        scenario.group.network.cut(*workers[:2], world.rng.uniform(9.0, 11.0))
        world.run_until(world.now + 20.0)
        assert [worker.agent.peers.given_up for worker in workers] == [None] * 3, f"seed {seed}"
        third = call_and_forget(workers[0], workers[2], 100)
        world.run_until(world.now + 1.0)
        assert third.exception() is None


def call_and_forget(worker: Worker, to: Worker, key: int) -> Future[Any]:
    info = worker.agent.get_worker_info(to.rank)
    return worker.agent.call_async(info, call, (key, 0.0), {}, 0.0)
