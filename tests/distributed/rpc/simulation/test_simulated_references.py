"""Under any fault a value lives exactly as long as a worker holds a reference to it."""

from __future__ import annotations

import gc
import logging
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import pytest

import fastdist
from fastdist.concurrency.future import Future
from fastdist.core.errors import RpcError, WorkerLostError
from fastdist.distributed import autograd as da
from fastdist.distributed import rpc
from fastdist.distributed.autograd.container import get_instance
from fastdist.distributed.rpc.functions import async_execution
from fastdist.distributed.rpc.message.types import MessageType
from fastdist.distributed.rpc.references.held import Event
from fastdist.distributed.rpc.references.rref import RRef
from tests.distributed.rpc.simulation.simulated_calls import BUSY_S, HORIZON_S, Calls, try_seeds
from tests.distributed.rpc.simulation.simulated_fixtures import group_ends, machine  # noqa: F401
from tests.distributed.rpc.simulation.simulated_group import Kind, Worker, here
from tests.distributed.rpc.simulation.simulated_world import Crashed

# In this time after the busy period, the last call ends and releases its references.
_QUIET_S = 40.0
# Under any fault, an owner learns of a new reference within this time.
HEARD_OF_S = 12.0

NUM_SEEDS = 60


class Value:
    pass


class References(Calls):
    """The calls of one seed whose requests and answers carry references."""

    def __init__(self, seed: int, *, kind: Kind | None = None, quiet: bool = False) -> None:
        self.kept: dict[str, list[RRef[Any]]] = defaultdict(list)
        self.made: set[int] = set()
        self.came_at: dict[int, float] = {}  # time of arrival, by fork id
        super().__init__(seed, kind=kind, quiet=quiet)

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
        self.world.soon(worker, self.make_call, worker, rng.choice(self.group.ranks()))

    def make_call(self, worker: Worker, to: int) -> None:
        rng, agent = self.world.rng, worker.agent
        timeout_s = rng.choice((0.0, 0.02, 0.3, 0.3, 2.0, 8.0))
        function = rng.choice((keep, keep, drop, give, give, give_later, pass_on))
        try:
            info = agent.get_worker_info(to)
            arguments = (rng.choice((0.0, 0.3, 3.0)), self.one_of(worker), self.one_of(worker))
            kind = rng.choice(("call", "call_async", "call_async", "remote"))
            if kind == "remote":
                rref = agent.rrefs.create_remote(info, function, arguments, {}, timeout_s)
                if rng.random() < 0.5:
                    self.kept[worker.name].append(rref)
            elif kind == "call":
                self.keep_some(worker, agent.call(info, function, arguments, {}, timeout_s))
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
            self.keep(worker, answer)

    def keep(self, worker: Worker, rrefs: Sequence[RRef[Any]]) -> None:
        self.kept[worker.name].extend(rrefs)
        for rref in rrefs:
            self.came_at.setdefault(rref._fork_id, self.world.now)

    def one_of(self, worker: Worker) -> RRef[Any]:
        kept = self.kept[worker.name]
        return self.world.rng.choice(kept) if kept and self.world.rng.random() < 0.5 else new()

    def check(self) -> None:
        if not all(self.is_clean(worker) for worker in self.group.workers):
            gc.collect()
            self.world.run_until(self.world.now + HORIZON_S)
        assert not self.broken, self.broken
        for worker in self.group.workers:
            info = worker.agent.rrefs.get_debug_info()
            assert self.is_clean(worker), f"{worker.name}: {info}"
            if not worker.dead:
                self.check_that_nothing_is_left(worker)

    def is_clean(self, worker: Worker) -> bool:
        info = worker.agent.rrefs.get_debug_info()
        return self.is_out(worker) or set(info.values()) == {"0"}

    def is_out(self, worker: Worker) -> bool:
        """Return whether a worker has ended, or was declared lost by others."""
        return worker.is_out or any(other.gave_up(worker) for other in self.group.living())

    def find_broken(self) -> list[str]:
        """Return references whose values are gone although the owners live."""
        workers = self.group.workers
        owners = {one.agent.me.incarnation: one for one in workers if not self.is_out(one)}
        return [
            f"{rref!r} at {worker.name}"
            for worker in self.group.workers
            for rref in self.kept[worker.name]
            if not self.is_out(worker) and not rref._is_deleted
            if (life := rref._owner.record.incarnation) in owners and rref._id in self.made
            if rref._id not in owners[life].agent.rrefs.owned._by_id
            if not self.may_be_passed_on_by_the_dead(rref, worker)
        ]

    def may_be_passed_on_by_the_dead(self, rref: RRef[Any], holder: Worker) -> bool:
        """Return whether the sender of a reference may have died before the owner knew the fork."""
        came = self.came_at.get(rref._fork_id, 0.0)
        earliest = came - HEARD_OF_S - holder.frozen_s  # the holder may have read the message late
        died = [worker.died_at or 0.0 for worker in self.group.workers]
        return any(earliest < one < came + HEARD_OF_S for one in died)


scenarios: list[References] = []


def new() -> RRef[Any]:
    rref = RRef(Value())
    scenarios[-1].made.add(rref._id)
    return rref


def keep(seconds: float, *rrefs: RRef[Any]) -> None:
    scenarios[-1].keep(here(), rrefs)


def drop(seconds: float, *rrefs: RRef[Any]) -> None:
    pass


def give(seconds: float, *rrefs: RRef[Any]) -> tuple[RRef[Any], ...]:
    return (new(), *rrefs[:1])


@async_execution
def give_later(seconds: float, *rrefs: RRef[Any]) -> Future[Any]:
    answer: Future[Any] = Future()
    world, worker = scenarios[-1].world, here()

    def give_now() -> None:
        if not worker.left:  # a worker that has left can no longer make or receive a reference
            answer.set_result((new(), *rrefs[:1]))

    world.at(world.now + seconds, worker, give_now)
    return answer


@async_execution
def give_much_later(seconds: float, *rrefs: RRef[Any]) -> Future[Any]:
    answer: Future[Any] = Future()
    world = scenarios[-1].world
    world.at(world.now + seconds, here(), answer.set_result, None)
    return answer


@async_execution
def pass_on(seconds: float, *rrefs: RRef[Any]) -> Future[Any]:
    agent, ranks = here().agent, scenarios[-1].group.ranks()
    to = agent.get_worker_info(ranks[(ranks.index(here().rank) + 1) % len(ranks)])
    return agent.call_async(to, keep, (0.0, *rrefs), {}, 1.0)


@pytest.mark.one_in(8)
def test_whatever_breaks_values_live_as_long_as_their_references() -> None:
    try_seeds(References, scenarios, range(NUM_SEEDS))


def test_an_answer_that_comes_twice_brings_its_references_once() -> None:
    scenario = References(0, quiet=True)
    scenarios[:] = [scenario]
    caller, callee = scenario.group.workers[:2]
    pool, read = caller.agent.pool, list[tuple[Any, Any]]()
    peer: Any = caller.agent.worker(1)
    came = peer._take

    def come_twice(frames: list[Any]) -> None:
        for _ in range(2):
            came([*frames])

    def put_off(function: Any, *arguments: Any) -> bool:
        read.append((function, arguments))
        return True

    peer._take, pool.submit_uncounted = come_twice, put_off
    future = caller.agent.call_async(caller.agent.get_worker_info(1), give, (0.0,), {}, 0.0)
    scenario.world.run_until(scenario.world.now + 1.0)
    # Run the pool's work in the reverse order.
    for function, arguments in reversed(read):
        caller.run(function, arguments)
    scenario.world.run_until(scenario.world.now + 1.0)
    (rref,) = future.value()
    assert [owned.rref_id for owned in callee.agent.rrefs.owned.values()] == [rref._id]


@pytest.mark.one_in(8)
def test_nobody_waits_for_the_value_of_a_call_that_was_lost_and_cannot_be_sent_again() -> None:
    for seed in range(50):
        scenario = References(seed, quiet=True)
        scenarios[:] = [scenario]
        world, (caller, callee, _) = scenario.world, scenario.group.workers
        call_and_fetch(caller)  # connects the two workers
        world.run_until(world.now + 1.0)
        between = [link for link in scenario.group.network.links if link.client is caller]
        # The call and the fetch use two connections, one of which breaks.
        when = world.now + world.rng.uniform(0.002, 0.01)
        world.at(when, None, world.rng.choice(between).break_off)
        call_and_fetch(caller)
        world.run_until(world.now + 30.0)
        scenario.check_that_nothing_is_left(callee)


@pytest.mark.one_in(8)
def test_nobody_waits_for_the_value_of_a_call_that_was_refused() -> None:
    for seed in range(20):
        scenario = References(seed, quiet=True)
        scenarios[:] = [scenario]
        world, (caller, callee, _) = scenario.world, scenario.group.workers
        call_and_fetch(caller)  # connects the two workers
        world.run_until(world.now + 1.0)
        world.soon(caller, call_in_a_context, callee, caller)
        world.run_until(world.now + 30.0)
        scenario.check_that_nothing_is_left(callee)


def test_nobody_keeps_what_came_behind_a_reference_that_cannot_be_had(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scenario = References(0, quiet=True)
    scenarios[:] = [scenario]
    world, (caller, callee, _) = scenario.world, scenario.group.workers
    rrefs = callee.agent.rrefs

    def refuse_one(rref: RRef[Any], fork_id: int) -> None:
        if rref._id == min(scenario.made):
            rrefs._step(rref._held, Event.REFUSED)
            raise RpcError("it comes too late")

    monkeypatch.setattr(rrefs, "_require_wanted", refuse_one)
    world.soon(caller, _make_of_two_references)
    world.run_until(world.now + 30.0)
    gc.collect()
    world.run_until(world.now + 30.0)
    assert len(scenario.made) == 2
    assert scenario.is_clean(caller) and scenario.is_clean(callee)


def _make_of_two_references() -> None:
    _fetch(rpc.remote("w1", drop, (0.0, new(), new())))


def call_in_a_context(callee: Worker, caller: Worker) -> None:
    with da.context() as context_id:
        callee.world.at(callee.world.now, callee, hear_of_and_release, context_id)
        rref = rpc.remote("w1", drop, (0.0, fastdist.ones(3, requires_grad=True)))
        caller.world.soon(caller, _fetch, rref)


def hear_of_and_release(context_id: int) -> None:
    get_instance().get_or_create_context(context_id)
    get_instance().release_context(context_id)


def call_and_fetch(caller: Worker) -> None:
    caller.world.soon(caller, _remote_and_fetch, caller)


def _remote_and_fetch(caller: Worker) -> None:
    # The tensor would be sent from the caller's memory, so no copy is kept to send it again.
    rref = rpc.remote("w1", drop, (0.0, fastdist.ones(100_000)))
    caller.world.soon(caller, _fetch, rref)


def _fetch(rref: RRef[Any]) -> None:
    try:
        rref.to_here(timeout=1.0)
    except RpcError:
        logging.getLogger(__name__).info("a fetch failed", exc_info=True)


def note_kinds(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that collects the types of a worker's requests on its shared lanes."""
    kinds: list[str] = []
    client = worker.agent.client
    request = client.request

    def note(to: Any, kind: MessageType, *rest: Any) -> Future[Any]:
        kinds.append(kind.name)
        return request(to, kind, *rest)

    monkeypatch.setattr(client, "request", note)
    return kinds


@pytest.mark.parametrize("do", [drop, keep])
def test_an_owner_hears_of_a_reference_only_if_it_does_not_end_at_once(
    do: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = References(0, quiet=True)
    scenarios[:] = [scenario]
    world, (owner, sender, receiver) = scenario.world, scenario.group.workers
    told = note_kinds(receiver, monkeypatch)
    made: list[RRef[Any]] = []

    def hand_on() -> None:
        made.append(rpc.remote("w0", Value))
        rpc.rpc_async("w2", do, (0.0, *made))

    world.soon(sender, hand_on)
    world.run_until(world.now + 1.0)
    assert told == ["RREF_FORK_REQUEST"] * (do is keep) + ["RREF_CHILD_ACCEPT"]
    (value,) = owner.agent.rrefs.owned.values()
    assert len(value.users) == 1 + (do is keep)
    assert sender.agent.rrefs.get_debug_info()["num_pending_children"] == "0"
    made.clear()
    gc.collect()
    world.run_until(world.now + 1.0)
    assert [len(one.users) for one in owner.agent.rrefs.owned.values()] == [1] * (do is keep)
    scenario.kept.clear()
    world.run_until(world.now + 1.0)
    assert scenario.is_clean(owner) and scenario.is_clean(sender) and scenario.is_clean(receiver)


def test_who_is_answered_knows_that_a_reference_to_its_value_has_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scenario = References(0, quiet=True)
    scenarios[:] = [scenario]
    world, (owner, receiver, _) = scenario.world, scenario.group.workers
    told = note_kinds(receiver, monkeypatch)
    world.soon(owner, lambda: rpc.rpc_async("w1", keep, (0.0, new())))
    world.run_until(world.now + 1.0)
    assert told == [] and len(owner.agent.rrefs.owned.values()) == 1
    assert owner.agent.rrefs.get_debug_info()["num_pending_children"] == "0"
    scenario.kept.clear()
    world.run_until(world.now + 1.0)
    assert told == ["RREF_USER_DELETE"] and scenario.is_clean(owner) and scenario.is_clean(receiver)


def test_a_value_goes_with_its_last_reference_though_the_call_goes_on() -> None:
    scenario = References(0, quiet=True)
    scenarios[:] = [scenario]
    world, (owner, *_) = scenario.world, scenario.group.workers
    answers: list[Future[Any]] = []
    world.soon(owner, lambda: answers.append(rpc.rpc_async("w1", give_much_later, (9.0, new()))))
    world.run_until(world.now + 1.0)
    assert owner.agent.rrefs.owned.values() == [] and not answers[0].done()
    world.run_until(world.now + 9.0)
    assert answers[0].done()


def test_a_value_lives_on_whose_user_is_lost_just_after_it_passed_a_reference_on() -> None:
    scenario = References(0, quiet=True)
    scenarios[:] = [scenario]
    world, (owner, sender, receiver) = scenario.world, scenario.group.workers
    for one in (sender, receiver):
        world.soon(one, rpc.rpc_sync, "w0", abs, (-1,))
    world.run_until(world.now + 1.0)
    world.soon(sender, lambda: rpc.rpc_async("w2", keep, (0.0, rpc.remote("w0", Value))))
    while not scenario.kept[receiver.name]:
        world.run_until(world.now + 0.001)
    (value,) = owner.agent.rrefs.owned.values()
    assert [user.id for user in value.users.values()] == [sender.rank]
    sender.crash()
    scenario.group.tell_that_process_ended(sender)
    world.run_until(world.now + 1.0)
    assert owner.agent.rrefs.owned.values() == [value]
    assert [user.id for user in value.users.values()] == [receiver.rank]
    scenario.kept.clear()
    world.run_until(world.now + 1.0)
    assert owner.agent.rrefs.owned.values() == []


@pytest.mark.one_in(7, each=True)
@pytest.mark.parametrize("ask", ["a fetch", "a call"])
def test_nobody_waits_for_a_value_of_a_life_that_is_over_when_its_owner_first_hears_of_it(
    ask: str,
) -> None:
    scenario = References(0, kind="restarts", quiet=True)
    world, network = scenario.world, scenario.group.network
    owner, maker, reader = scenario.group.workers
    waits_ended.clear()
    for one in (maker, reader):
        world.soon(one, rpc.rpc_sync, "w0", abs, (-1,))
    world.run_until(world.now + 1.0)
    network.cut(owner, maker, 1.0)
    network.cut(owner, reader, 2.5)
    world.soon(maker, _hand_over, ask)
    world.run_until(world.now + 0.5)
    maker.crash()
    later = scenario.group.start(maker.rank)
    world.soon(later, rpc.rpc_sync, "w0", abs, (-1,))
    world.run_until(world.now + 1.0)
    known = owner.agent.workers.known(maker.rank)
    assert known is not None and known.record == later.agent.me and not waits_ended
    world.run_until(world.now + 30.0)
    assert waits_ended == ["worker 'w1' (rank 1), which should have made this value, was lost"]
    gc.collect()
    world.run_until(world.now + 30.0)
    assert owner.agent.rrefs.owned.values() == []


waits_ended: list[str] = []


def _hand_over(ask: str) -> None:
    """Pass on a reference to a value whose creating call does not reach the owner."""
    rpc.rpc_async("w2", _wait_for_value, (rpc.remote("w0", Value), ask))


def _wait_for_value(rref: RRef[Any], ask: str) -> None:
    try:
        if ask == "a fetch":
            rref.to_here(timeout=0)
        else:
            rpc.rpc_sync("w0", RRef.local_value, (rref,), timeout=0)
    except WorkerLostError as error:
        waits_ended.append(str(error))


# The seeds are split into parts because of pytest's time limit for a test.
@pytest.mark.slow
@pytest.mark.parametrize("first", range(NUM_SEEDS, 30_000, 1000))
def test_whatever_breaks_values_live_as_long_as_their_references_for_many_seeds(first: int) -> None:
    try_seeds(References, scenarios, range(first, first + 1000))
