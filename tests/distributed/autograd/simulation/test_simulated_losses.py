"""Bugs that the simulation found when workers were lost or rejoined, replayed step by step."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest

import fastdist
import fastdist.distributed.autograd as da
from fastdist import Tensor
from fastdist.core.errors import GivenUpError, RpcTimeoutError, WorkerLostError
from fastdist.distributed import rpc
from fastdist.distributed.autograd import stall
from fastdist.distributed.autograd.container import get_instance
from fastdist.distributed.rpc.calls.outgoing import LaneCall
from fastdist.distributed.rpc.workers.record import WorkerInfo
from tests.distributed.rpc.simulation.simulated_calls import Calls, name_of
from tests.distributed.rpc.simulation.simulated_fixtures import group_ends, machine  # noqa: F401
from tests.distributed.rpc.simulation.simulated_group import Kind, Worker, groups, here


def make_workers(kind: Kind = "static") -> list[Worker]:
    return Calls(0, kind=kind, quiet=True).group.workers


def run_for(seconds: float) -> None:
    world = groups[-1].world
    world.run_until(world.now + seconds)


def pause(seconds: float) -> None:
    world = groups[-1].world
    world.block(lambda: False, world.now + seconds)


def call_in_context(to: str, then_to: str, seconds: float) -> None:
    with da.context():
        rpc.rpc_sync(to, rpc.rpc_sync, (then_to, come))
        pause(seconds)


def come() -> None:
    has_come.append(here().name)


has_come = list[str]()


def num_contexts(worker: Worker) -> int:
    found = list[int]()
    worker.run(lambda: found.append(get_instance().number_of_contexts()), ())
    return found[0]


def test_a_late_message_brings_back_no_context_of_a_dead_life_whose_rank_has_another() -> None:
    reached, owner, sender = make_workers("restarts")
    world, network = groups[-1].world, groups[-1].network
    for other in (owner, reached):
        world.soon(sender, rpc.rpc_sync, f"w{other.rank}", abs, (-1,))
    run_for(1.0)
    network.cut(sender, reached, 1.0)
    world.soon(owner, call_in_context, "w2", "w0", 0.0)
    run_for(0.2)
    owner.crash()
    later = groups[-1].start(owner.rank)
    # The sender does not learn of the crash yet, so it does not report that the context has ended.
    network.cut(sender, later, 5.0)
    run_for(0.5)
    known = reached.agent.workers.known(owner.rank)
    assert known is not None and known.record == later.agent.me
    has_come.clear()
    run_for(5.0)
    assert has_come == []


def test_a_reference_comes_before_its_owner_who_follows_one_that_was_never_met() -> None:
    maker, former, reader = make_workers("restarts")
    values = list[str]()
    former.crash()
    owner = groups[-1].start(former.rank)
    groups[-1].network.cut(owner, reader, 1.0)
    run_for(0.5)
    maker.world.soon(maker, lambda: values.append(send_reference("w1", "w2")))
    run_for(5.0)
    assert values == [owner.name]


def send_reference(owner: str, reader: str) -> str:
    return rpc.rpc_sync(reader, read, (rpc.remote(owner, name_of),))


def read(rref: Any) -> str:
    return str(rref.to_here())


def test_who_was_given_up_holds_no_context_of_a_worker_that_it_never_met() -> None:
    owner, _, brought_to = make_workers()
    groups[-1].world.soon(owner, call_in_context, "w1", "w2", 100.0)
    run_for(1.0)
    assert num_contexts(brought_to) == 1
    error = GivenUpError("it was frozen")
    brought_to.world.soon(brought_to, brought_to.agent.workers._fence, error)
    run_for(1.0)
    assert num_contexts(brought_to) == 0


def test_a_pass_ends_that_waits_for_its_own_worker_when_that_is_given_up() -> None:
    root, ended = make_workers()[0], list[str]()

    def run_a_pass() -> None:
        rpc._set_rpc_timeout(0)
        x = fastdist.ones(3, requires_grad=True)
        with da.context() as context_id:
            rpc.rpc_async("w0", twice_behind_the_gate, (x,))
            with pytest.raises(
                WorkerLostError, match=r"'w0' \(rank 0\) was lost during the backward"
            ):
                da.backward(context_id, [x.sum()], mode="fast")
        ended.append(root.name)

    gate.clear()
    root.world.soon(root, run_a_pass)
    run_for(1.0)
    root.world.soon(root, root.agent.workers._fence, GivenUpError("it was frozen"))
    run_for(1.0)
    assert ended == [root.name]


def test_who_is_told_of_a_replaced_life_may_look_for_workers_meanwhile() -> None:
    one, other, _ = make_workers("restarts")
    workers, could_look = one.agent.workers, list[bool]()

    def was_lost(worker: WorkerInfo) -> None:
        could_look.append(repr(workers._refresh_lock).startswith("<unlocked"))

    workers.lost_callbacks.append(was_lost)
    one.world.soon(one, rpc.rpc_sync, "w1", abs, (-1,))
    run_for(1.0)
    other.crash()
    groups[-1].start(other.rank)
    one.world.soon(one, workers.refresh)
    run_for(0.5)
    assert could_look == [True]


def test_a_pass_waits_for_no_send_that_is_made_while_its_worker_is_told_to_begin_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    root = make_workers()[0]
    let_all_begin, ended = stall._let_all_begin, list[float]()

    def let_all_begin_late(*arguments: Any) -> Any:
        if not gate:
            gate.append(True)
            pause(2.0)  # longer than the timeout of 1 s, after which the root sends queries
        return let_all_begin(*arguments)

    def run_a_pass() -> None:
        rpc._set_rpc_timeout(1.0)
        x = fastdist.ones(3, requires_grad=True)
        with da.context() as context_id:
            rpc.rpc_async("w1", twice_behind_the_gate, (x,), timeout=0)
            pause(0.1)
            da.backward(context_id, [x.sum()])
            ended.append(groups[-1].world.now)

    gate.clear()
    monkeypatch.setattr(stall, "_let_all_begin", let_all_begin_late)
    root.world.soon(root, run_a_pass)
    run_for(60.0)
    assert ended


gate = list[bool]()


def twice_behind_the_gate(x: Tensor) -> Tensor:
    groups[-1].world.block(lambda: bool(gate), None)
    return x * 2


@pytest.mark.one_in(4)
def test_memory_that_an_answer_lent_comes_back_when_the_connection_took_it_along() -> None:
    for seed in range(0, 160, 8):
        caller, callee = Calls(seed, quiet=True).group.workers[:2]
        for number in range(4):
            caller.world.soon(caller, call_for_much, number)
            run_for(1.0)
        run_for(100.0)
        assert callee.num_lent() == 0, f"seed {seed}"


@pytest.mark.one_in(4)
def test_memory_that_an_answer_lent_comes_back_when_its_caller_has_given_up() -> None:
    for seed in range(0, 160, 8):
        caller, callee = Calls(seed, quiet=True).group.workers[:2]
        for number in (0, 1, 2, 4):
            caller.world.soon(caller, call_for_much, number, 0.6)
            run_for(1.0)
        run_for(100.0)
        assert callee.num_lent() == 0, f"seed {seed}"


def much_late(number: int) -> Tensor:
    pause(0.5)
    return fastdist.ones(number)


def much_at_once(number: int) -> Tensor:
    return fastdist.ones(number)


@pytest.mark.one_in(4, each=True)
@pytest.mark.parametrize("begin", [0, 1])
@pytest.mark.parametrize("function", [fastdist.ones, much_at_once, much_late])
def test_memory_that_an_answer_lent_comes_back_when_its_caller_was_interrupted(
    function: Callable[[int], Tensor], begin: int
) -> None:
    be_interrupted = (call_and_be_interrupted, begin_and_be_interrupted)[begin]
    for seed in range(0, 160, 8):
        caller, callee = Calls(seed, quiet=True).group.workers[:2]
        for number in range(3):
            caller.world.soon(caller, call_for_much, number)
            run_for(1.0)
        caller.world.soon(caller, be_interrupted, function)
        run_for(100.0)
        assert callee.num_lent() == 0, f"seed {seed}"


def call_and_be_interrupted(function: Callable[[int], Tensor]) -> None:
    agent = here().agent
    to = agent.get_worker_info("w1")
    waits = mock.patch.object(LaneCall, "_receive_answer", interrupt)
    with waits, pytest.raises(KeyboardInterrupt):
        agent.call(to, function, (20_000,), {}, 0.0)


def begin_and_be_interrupted(function: Callable[[int], Tensor]) -> None:
    agent = here().agent
    calls = [(agent.get_worker_info("w1"), function, (20_000,))] * 2
    with pytest.raises(KeyboardInterrupt):
        agent.call_each(calls, interrupt)


@pytest.mark.one_in(4)
def test_memory_that_gradients_lent_comes_back_when_the_request_for_them_counts_as_lost() -> None:
    for seed in range(0, 160, 8):
        caller, callee = Calls(seed, quiet=True).group.workers[:2]
        for number in range(3):
            caller.world.soon(caller, call_for_much, number)
            run_for(1.0)
        caller.world.soon(caller, lose_a_pass)
        run_for(1.0)
        gc.collect()  # an exception keeps objects of a failed call alive in a cycle
        run_for(100.0)
        assert callee.num_lent() == 0, f"seed {seed}"


def lose_a_pass() -> None:
    x = fastdist.ones(20_000, requires_grad=True)
    with da.context() as context_id:
        y = rpc.rpc_sync("w1", twice, (x,))
        waits = mock.patch.object(LaneCall, "_receive_answer", lose)
        with waits, pytest.raises(WorkerLostError, match="broke and came back"):
            da.backward(context_id, [y.sum()])


def lose(call: LaneCall, deadline: float | None) -> None:
    pause(groups[-1].world.rng.uniform(0.0, 0.04))
    raise call.lost_error(may_have_run=False)


def twice(x: Tensor) -> Tensor:
    return x * 2


def interrupt(*waiting: object) -> None:
    # Interrupt before the answer is sent, while it is on its way, or when it has arrived unread.
    pause(groups[-1].world.rng.uniform(0.0, 0.04))
    raise KeyboardInterrupt


def call_for_much(number: int, timeout_s: float = 0.0) -> None:
    with contextlib.suppress(WorkerLostError, RpcTimeoutError):
        rpc.rpc_sync("w1", much, (number,), timeout=timeout_s)


def much(number: int) -> Tensor:
    if number >= 3:  # the workers have agreed to share memory by then
        world, network = groups[-1].world, groups[-1].network
        for link in network.links:
            if link.server is here() and (number == 3 or not link.lane.watched):
                world.at(world.now + 0.0001, None, link.break_off)
    return fastdist.ones(20_000)


@pytest.mark.one_in(4)
def test_who_wakes_when_another_has_its_rank_is_none_of_the_group_any_more() -> None:
    sleeper, other, third = make_workers("restarts")
    other.world.soon(other, rpc.rpc_sync, "w0", abs, (-1,))
    run_for(1.0)
    sleeper.freeze(20.0)
    run_for(15.0)
    groups[-1].start(sleeper.rank)
    # After these crashes, only the store can report to the sleeper that it counts as lost.
    for worker in (other, third, groups[-1].present(0)):
        worker.crash()
    run_for(6.0)
    sleeper.world.soon(sleeper, sleeper.agent.workers.refresh)
    run_for(1.0)
    assert isinstance(sleeper.agent.workers.given_up, GivenUpError)
    assert sleeper.agent.worker().is_self


@pytest.mark.one_in(4)
def test_who_calls_itself_is_answered_by_itself_when_another_listens_where_it_did() -> None:
    sleeper, other, third = make_workers("restarts")
    answers = list[str]()
    other.world.soon(other, rpc.rpc_sync, "w0", abs, (-1,))
    run_for(1.0)
    sleeper.freeze(20.0)
    run_for(15.0)
    assert groups[-1].start(sleeper.rank).address == sleeper.address
    for worker in (other, third):
        worker.crash()  # no peer remains to report to the sleeper that it counts as lost
    sleeper.world.soon(sleeper, lambda: answers.append(rpc.rpc_sync("w0", name_of)))
    run_for(6.0)
    assert answers == [sleeper.name]
