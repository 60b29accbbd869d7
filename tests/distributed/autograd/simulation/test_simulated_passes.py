"""Under any fault a pass gives the gradients of one process or an error, and leaves no state."""

from __future__ import annotations

import gc
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

import fastdist.distributed.autograd as da
from fastdist import Tensor
from fastdist.core.errors import (
    ContextReleasedError,
    GraphError,
    RpcNotRunningError,
    RpcTimeoutError,
    StaleIncarnationError,
    WorkerLostError,
)
from fastdist.distributed import rpc
from fastdist.distributed.rpc.workers.worker import Worker as PeerWorker
from fastdist.distributed.rpc.workers.workers import Workers
from fastdist.graph.forward_grad import ForwardADLevel
from fastdist.graph.modes import modes
from tests.distributed.autograd.programs import NOTHING
from tests.distributed.autograd.simulation.simulated_programs import (
    EXACT,
    ON_PURPOSE,
    FailedOnPurpose,
    Found,
    Program,
    Step,
    Wait,
    call_worker,
    expected,
    follow,
    leaf,
    make_program,
    run,
    weights_used,
)
from tests.distributed.rpc.simulation.simulated_calls import BUSY_S, Calls, try_seeds
from tests.distributed.rpc.simulation.simulated_fixtures import group_ends  # noqa: F401
from tests.distributed.rpc.simulation.simulated_group import Worker, here, simulated_machine
from tests.distributed.rpc.simulation.simulated_world import Crashed

# In this time after the busy period, all passes end, and all workers that took part learn it.
QUIET_S = 100.0
# A step that only waits takes one of these times.
PAUSES_S = (0.01, 0.1, 0.5, 2.0)
# A worker that was notified of a loss releases the lost worker's objects within this time.
TOLD_S = 0.05


@dataclass
class Run:
    """One run of a program, and its outcome."""

    number: int
    worker: Worker
    program: Program
    expected: Found
    began: float
    ended: float = 0.0
    found: Found | None = None
    # Not the error itself, because its frames would keep objects alive that must be released.
    error: tuple[type[BaseException], str] | None = None


class Passes(Calls):
    """The group, programs and faults of one seed."""

    num_begun = 2, 6
    num_begun_in_storm = 4

    def __init__(self, seed: int, *, quiet: bool = False) -> None:
        self.runs_begun: list[Run] = []
        self.weights: dict[tuple[str, int], Tensor] = {}
        self.first_fault: float | None = None
        # When a worker was notified of a lost life: by the worker's name, then by the life's name.
        self.told_lost: dict[str, dict[str, float]] = {}
        self.acted_for_the_dead: list[str] = []
        self.acted_for_another: list[str] = []
        modes.special = 0
        super().__init__(seed, size=2 + seed % 4, quiet=quiet)
        self.rpc_timeout_s = self.world.rng.choice((3.0, 10.0))

    def run(self) -> None:
        self.world.run_until(self.world.now + BUSY_S + QUIET_S)
        self.greet_each_other()

    def begin_one(self) -> None:
        rng = self.world.rng
        worker = rng.choice(self.group.workers)
        if worker.dead or worker.left or worker.frozen:
            return
        program, result = self.make_program(worker)
        one = Run(len(self.runs_begun), worker, program, result, self.world.now)
        self.runs_begun.append(one)
        self.world.soon(worker, self.run_one, one)

    def make_program(self, worker: Worker) -> tuple[Program, Found]:
        while True:
            program = make_program(self.world.rng, self.group.ranks())
            found = expected(program, worker.rank)
            lists = [found.value, found.tangent, *found.gradients.values()]
            if max(sum(one) for one in lists if one) < EXACT:
                return program, found

    def run_one(self, one: Run) -> None:
        if ForwardADLevel.count():
            # A process has one stack of forward mode's levels, which two threads cannot share.
            one.program = one.program._replace(has_tangents=False)
            one.expected = one.expected._replace(tangent=None)
        program, rank = one.program, one.worker.rank
        try:
            rpc._set_rpc_timeout(self.rpc_timeout_s)
            with da.context() as context_id:

                def backward(root: Tensor, retain_graph: bool) -> None:
                    da.backward(context_id, [root], retain_graph, mode=program.mode)

                def gradients(a: Tensor, b: Tensor) -> dict[str, Tensor | None]:
                    mine = da.get_gradients(context_id)
                    found = {"a": mine.get(a), "b": mine.get(b)}
                    for at in sorted(weights_used(program, rank)):
                        if self.life_of(at).began > one.began:
                            raise WorkerLostError(f"w{at} was lost, and its gradients with it")
                        arguments = (context_id, program.length)
                        found[str(at)] = rpc.rpc_sync(f"w{at}", weight_gradient, arguments)
                    return found

                one.found = run(program, AtWorker(one.number, program.length), backward, gradients)
        except Crashed:
            raise
        except Exception as error:
            one.error = type(error), str(error)
        one.ended = self.world.now

    def break_something(self) -> None:
        self.first_fault = self.first_fault or self.world.now
        super().break_something()

    def storm(self) -> None:
        self.first_fault = self.first_fault or self.world.now
        super().storm()

    def note_act(self, number: int, planned_by: Worker) -> None:
        """Record an act for a program, if the worker whose turn it is must not act for it."""
        owner, worker = self.runs_begun[number].worker, here()
        if worker is not planned_by:
            self.acted_for_another.append(f"{worker.name} for {planned_by.name}")
        told = self.told_lost.get(worker.name, {}).get(owner.name)
        if owner.dead and told is not None and self.world.now > told + TOLD_S:
            self.acted_for_the_dead.append(f"{worker.name} for {owner.name}, program {number}")

    def check(self) -> None:
        assert not self.acted_for_the_dead, self.acted_for_the_dead
        assert not self.acted_for_another, self.acted_for_another
        for one in self.runs_begun:
            if not one.worker.dead:
                assert one.ended, f"program {one.number} of {one.worker.name} waits: {one.program}"
            if one.ended:
                self.check_run(one)
        living = self.group.living()
        if any(self.references_of(worker) or worker.num_lent() for worker in living):
            gc.collect()  # errors may keep objects alive in a cycle
            self.world.run_until(self.world.now + 5.0)
        for worker in self.group.living():
            worker.run(self.check_that_nothing_is_left_here, ())

    def references_of(self, worker: Worker) -> dict[str, str]:
        """Return the counts of a worker's references that are not 0."""
        found = worker.agent.rrefs.get_debug_info()
        return {name: count for name, count in found.items() if count != "0"}

    def check_run(self, one: Run) -> None:
        if one.error is None:
            assert not one.program.must_fail(), f"{one.program} did not fail"
            assert one.found == one.expected, (
                f"program {one.number} of {one.worker.name} found {one.found}, not {one.expected}: "
                f"{one.program}"
            )
            return
        kind, said = one.error
        text = f"program {one.number} of {one.worker.name} ended with {one.error}: {one.program}"
        planned = one.program.fails() and ON_PURPOSE in said
        assert planned or names_what_broke(one), text
        if self.first_fault is None or one.ended < self.first_fault:
            # The first report may only say that another worker's part has ended, without the
            # reason.
            is_late = issubclass(kind, ContextReleasedError) or "has ended here" in said
            is_over = one.program.fails() and is_late
            # The pauses of a program may add up to more than a call's timeout.
            is_slow = issubclass(kind, RpcTimeoutError) and one.program.pauses()
            assert planned or is_over or is_slow or may_come_to_rest(one), text

    def check_that_nothing_is_left_here(self) -> None:
        worker = here()
        assert da._get_debug_info() == NOTHING, f"{worker.name}: {da._get_debug_info()}"
        mirrors = da.tangent_store().number_of_mirrors()
        assert mirrors == 0, f"{worker.name}: {mirrors} mirrors"
        told = da.tangent_store()._notified
        assert not told, f"{worker.name}: {told} were notified of levels"
        assert ForwardADLevel.count() == 0, f"{worker.name}: {ForwardADLevel.count()} levels"
        assert not self.references_of(worker), f"{worker.name}: {self.references_of(worker)}"
        assert not worker.agent.client.resends, worker.name
        self.check_that_nothing_is_left(worker)


def names_what_broke(one: Run) -> bool:
    """Return whether a program's error names a loss, a leave or a timeout."""
    assert one.error is not None
    kind, said = one.error
    if issubclass(kind, GraphError) and "stalled" in said:
        return may_come_to_rest(one)
    return issubclass(kind, _LOSSES) or re.search(_TOLD, said) is not None


def may_come_to_rest(one: Run) -> bool:
    """Return whether the error is a stalled pass, which fast mode reports for loose programs."""
    assert one.error is not None
    rests = issubclass(one.error[0], GraphError) and "stalled" in one.error[1]
    return rests and one.program.mode == "fast" and one.program.is_loose()


_LOSSES = (
    *(WorkerLostError, StaleIncarnationError, RpcTimeoutError, RpcNotRunningError),
    ContextReleasedError,
)
# Texts by which errors of more general classes show a loss, a leave or a timeout.
_TOLD = re.compile(
    r"could not find destination (name|id)|was given up by worker|all its other references ended"
    r"|Could not find autograd context|was released while this thread"
    r"|Need to initialize distributed autograd"
)
scenarios: list[Passes] = []


class AtWorker:
    """A `Place` for a plan: the simulated worker whose turn it is."""

    def __init__(self, number: int, length: int) -> None:
        self._number = number
        self._length = length
        self._worker = here()

    def call(self, kind: str, to: int, plan: tuple[Step, ...], a: Tensor, b: Tensor) -> Wait:
        return call_worker(kind, to, follow_here, plan, a, b, self._number, self._length)

    def weight(self) -> Tensor:
        return weight_here(self._length)

    def watch(self, grad: Tensor) -> None:
        scenarios[-1].note_act(self._number, self._worker)

    def pause(self) -> None:
        world = scenarios[-1].world
        world.block(lambda: False, world.now + world.rng.choice(PAUSES_S))

    def fail(self, grad: Tensor) -> None:
        raise FailedOnPurpose(ON_PURPOSE)


def follow_here(plan: tuple[Step, ...], a: Tensor, b: Tensor, number: int, length: int) -> Tensor:
    scenarios[-1].note_act(number, here())
    return follow(plan, a, b, AtWorker(number, length))


def weight_here(length: int) -> Tensor:
    worker, weights = here(), scenarios[-1].weights
    key = worker.name, length
    if key not in weights:
        weights[key] = leaf(1.0 + worker.rank % 3, length)
    return weights[key]


def weight_gradient(context_id: int, length: int) -> Tensor | None:
    return da.get_gradients(context_id).get(weight_here(length))


def handle_lost(workers: Workers, lost: PeerWorker) -> None:
    """Handle a lost peer as `Workers` does, and let the worker record the time of the loss."""
    real_handle_lost(workers, lost)
    if not scenarios:
        return
    name = scenarios[-1].group.by_incarnation[lost.record.incarnation].name
    workers._submit(note_lost, name)


def note_lost(name: str) -> None:
    told = scenarios[-1].told_lost.setdefault(here().name, {})
    told[name] = scenarios[-1].world.now


real_handle_lost = Workers.handle_lost


@contextmanager
def machine_of_passes() -> Iterator[None]:
    """Simulate the machine of the agents in the block, and report losses to the scenarios."""
    with simulated_machine(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(Workers, "handle_lost", handle_lost)
        yield


@pytest.fixture(scope="module", autouse=True)
def machine() -> Iterator[None]:
    with machine_of_passes():
        yield


# A seed takes 50 to 100 ms; --slow tries more seeds. The seeds are split into parts because of
# pytest's time limit for a test.
@pytest.mark.one_in(6)
@pytest.mark.parametrize("first", range(0, 60, 10))
def test_whatever_breaks_passes_give_the_gradients_of_one_process_or_a_stated_error(
    first: int,
) -> None:
    try_seeds(Passes, scenarios, range(first, first + 10))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(60, 100_000, 270))
def test_whatever_breaks_passes_give_the_gradients_of_one_process_for_many_seeds(
    first: int,
) -> None:
    try_seeds(Passes, scenarios, range(first, first + 270))
