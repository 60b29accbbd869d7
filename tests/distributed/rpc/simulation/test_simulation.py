"""Under any fault no call runs twice, every caller gets a result in time, and nothing is left."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from fastdist.concurrency.future import Future
from fastdist.core.errors import GivenUpError, RpcTimeoutError
from fastdist.distributed.pipe.pipe import Pipe
from fastdist.distributed.rpc.message.types import MessageType
from tests.distributed.rpc.simulation.simulated_calls import Calls, call, scenarios, try_seeds
from tests.distributed.rpc.simulation.simulated_fixtures import group_ends, machine  # noqa: F401
from tests.distributed.rpc.simulation.simulated_group import Worker

NUM_SEEDS = 150


@pytest.fixture
def seeds(samples_alone: bool) -> range:
    return range(25 if samples_alone else 250)


# The seeds are split into parts because of pytest's time limit for a test.
@pytest.mark.one_in(6)
@pytest.mark.parametrize("first", range(0, NUM_SEEDS, 25))
def test_whatever_breaks_calls_run_at_most_once_and_all_callers_hear(first: int) -> None:
    try_seeds(Calls, scenarios, range(first, first + 25))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(NUM_SEEDS, 100_000, 1000))
def test_whatever_breaks_calls_run_at_most_once_and_all_callers_hear_for_many_seeds(
    first: int,
) -> None:
    try_seeds(Calls, scenarios, range(first, first + 1000))


def test_a_cancelled_call_that_waits_for_a_thread_does_not_run() -> None:
    scenario = Calls(0, quiet=True)
    scenarios[:] = [scenario]
    caller, callee = scenario.group.workers[:2]
    callee.serve = lambda: None
    future = caller.agent.call_async(caller.agent.get_worker_info(1), call, (1, 0.0), {}, 0.5)
    scenario.world.run_until(scenario.world.now + 0.1)
    request = callee.agent._server.take()
    assert request is not None
    scenario.world.run_until(scenario.world.now + 1.0)
    assert isinstance(future.exception(), RpcTimeoutError)
    # The only later message is the notice that the caller gave up the call.
    word = callee.agent._server.take()
    assert word is not None and word.argument.message.type == MessageType.RREF_GIVE_UP_REQ
    assert callee.agent._server.take() is None
    assert request.argument.deadline == 0.0
    request.function(request.argument)
    assert not scenario.runs
    assert callee.agent.counts.activity()[0] == 0


def test_a_simulated_process_ends_when_it_first_ends() -> None:
    scenario = Calls(0, quiet=True)
    world, worker = scenario.world, scenario.group.workers[0]
    worker.crash()
    ended = world.now
    world.run_until(ended + 1.0)
    worker.crash()
    assert worker.died_at == ended < world.now


def test_a_request_that_comes_again_does_not_run_again_however_late_it_comes() -> None:
    scenario = Calls(0, quiet=True)
    scenarios[:] = [scenario]
    scenario.group.network.comes_twice = 1.0
    caller = scenario.group.workers[0]
    for key in range(5):
        scenario.world.soon(caller, block_on, caller, key)
        scenario.world.run_until(scenario.world.now + 0.3)
    scenario.world.run_until(scenario.world.now + 1000.0)
    assert [len(scenario.runs[key]) for key in range(5)] == [1] * 5


def test_who_takes_over_the_lane_of_a_call_that_began_later_is_heard_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scenario = Calls(0, quiet=True)
    scenarios[:] = [scenario]
    caller, ended = scenario.group.workers[0], list[int]()
    borrow_lane = Pipe.borrow_lane

    def borrow_behind_another(pipe: Pipe) -> Any:
        monkeypatch.setattr(Pipe, "borrow_lane", borrow_lane)
        block_on(caller, 2)
        return borrow_lane(pipe)

    def call_and_tell(key: int) -> None:
        block_on(caller, key)
        ended.append(key)

    monkeypatch.setattr(Pipe, "borrow_lane", borrow_behind_another)
    scenario.world.soon(caller, call_and_tell, 1)
    scenario.world.run_until(scenario.world.now + 5.0)
    assert ended == [1]


def test_who_was_given_up_when_it_comes_to_watch_over_a_caller_does_nothing() -> None:
    scenario = Calls(0, kind="dynamic", quiet=True)
    scenarios[:] = [scenario]
    world, (caller, callee, _) = scenario.world, scenario.group.workers
    world.at(world.now, callee, callee.agent.workers._fence, GivenUpError("it was frozen"))
    world.at(world.now, callee, callee.agent.workers._watch, caller.rank)
    world.run_until(world.now + 1.0)
    assert not callee.agent.workers.met()


def block_on(caller: Worker, key: int) -> None:
    caller.agent.call(caller.agent.get_worker_info(1), call, (key, 0.0), {}, 0.0)


@pytest.mark.one_in(8)
def test_who_is_stopped_again_and_again_takes_nobody_for_silent(seeds: range) -> None:
    for seed in seeds:
        scenario = Calls(seed, quiet=True)
        scenarios[:] = [scenario]
        world, (stutterer, other) = scenario.world, scenario.group.workers[:2]
        to = stutterer.agent.get_worker_info(1)
        stutterer.agent.call_async(to, call, (1, 0.0), {}, 5.0)
        world.run_until(world.now + 1.0)
        for _ in range(5):
            stutterer.freeze(4.0)
            world.run_until(world.now + 4.01)
        lost = stutterer.agent.workers.get(1).why_lost
        assert "no sign of life" not in lost and "nobody listens" not in lost, (
            f"seed {seed}: {lost}"
        )
        assert not other.dead


@pytest.mark.one_in(8)
def test_who_was_frozen_for_too_long_hears_of_it_and_nothing_of_it_runs_any_more(
    seeds: range,
) -> None:
    for seed in seeds:
        scenario = Calls(seed, quiet=True)
        scenarios[:] = [scenario]
        world, (sleeper, *others) = scenario.world, scenario.group.workers
        rng = world.rng
        met = others[: rng.randint(1, len(others))]
        for number, other in enumerate(met):
            call_and_forget(sleeper, other, number)
        world.run_until(world.now + 1.0)
        for number, other in enumerate(met):
            # Calls that start before the freeze, and calls that start when the sleeper wakes.
            world.at(world.now + 0.1, sleeper, call_and_forget, sleeper, other, 100 + number)
            world.at(world.now + 3.0, sleeper, call_and_forget, sleeper, other, 200 + number)
        sleeper.freeze(rng.choice((12.0, 15.0, 40.0)))
        while sleeper.frozen:
            world.run_until(world.now + 0.1)
        world.run_until(world.now + 6.0)
        error = sleeper.agent.workers.given_up
        assert error is not None and "was declared lost by worker" in str(error), f"seed {seed}"
        for number, other in enumerate(met):
            assert 100 + number not in scenario.runs and 200 + number not in scenario.runs
            future = call_and_forget(sleeper, other, 300 + number)
            assert isinstance(future.exception(), GivenUpError), f"seed {seed}"
            assert other.agent.workers.given_up is None
        scenario.check_that_nothing_is_left(sleeper)


@pytest.mark.one_in(8)
def test_a_cut_between_two_ends_neither_while_a_third_is_in_touch_with_both(seeds: range) -> None:
    for seed in seeds:
        scenario = Calls(seed, quiet=True)
        scenarios[:] = [scenario]
        world, workers = scenario.world, scenario.group.workers
        for number, (one, other) in enumerate(permutations(workers, 2)):
            call_and_forget(one, other, number)
        world.run_until(world.now + 1.0)
        scenario.group.network.cut(*workers[:2], world.rng.uniform(9.0, 11.0))
        world.run_until(world.now + 20.0)
        assert [worker.agent.workers.given_up for worker in workers] == [None] * 3, f"seed {seed}"
        third = call_and_forget(workers[0], workers[2], 100)
        world.run_until(world.now + 1.0)
        assert third.exception() is None


def call_and_forget(worker: Worker, to: Worker, key: int) -> Future[Any]:
    info = worker.agent.get_worker_info(to.rank)
    return worker.agent.call_async(info, call, (key, 0.0), {}, 0.0)
