"""Under any fault all live workers shut down together, after all calls, and none hangs."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from fastdist.core.errors import RpcError
from fastdist.distributed import rpc
from fastdist.distributed.rpc.workers import tree
from tests.distributed.rpc.simulation import simulated_calls
from tests.distributed.rpc.simulation.simulated_calls import BUSY_S, HORIZON_S, Calls, try_seeds
from tests.distributed.rpc.simulation.simulated_fixtures import group_ends, machine  # noqa: F401
from tests.distributed.rpc.simulation.simulated_group import Worker
from tests.distributed.rpc.simulation.simulated_world import Crashed

# How long a worker waits for running calls before it gives up.
PATIENCE_S = 60.0

NUM_SEEDS = 60


@dataclass
class Leaving:
    """One worker's shutdown, and its result."""

    worker: Worker
    began: float
    ended: float = 0.0
    error: BaseException | None = None


class Shutdowns(Calls):
    """The calls and faults of one seed, and a later shutdown of all workers."""

    kinds = ("static", "restarts", "restarts")

    def __init__(self, seed: int, *, quiet: bool = False) -> None:
        self.leavings: list[Leaving] = []
        # Some trees are deep: up to nine workers with two children each.
        is_deep = seed % 3 == 0
        super().__init__(seed, size=2 + seed % (8 if is_deep else 4), quiet=quiet)
        self.group.fan_out = 2 if is_deep else tree.FAN_OUT
        rng = self.world.rng
        self.only_crashes = rng.random() < 0.4
        for worker in self.group.workers:
            when = self.world.now + self.busy_s * (rng.choice((0.5, 1.0)) + rng.random() * 0.25)
            self.world.at(when, worker, self.leave, worker)

    def run(self) -> None:
        self.world.run_until(self.world.now + BUSY_S + HORIZON_S + PATIENCE_S)

    def break_something(self) -> None:
        if not self.only_crashes:
            super().break_something()
            return
        not_come = [worker for worker in self.group.living() if not worker.left]
        if not_come:
            self.broke.append("crash")
            self.crash(self.world.rng.choice(not_come))

    def storm(self) -> None:
        if not self.only_crashes:
            super().storm()

    def came_back(self, worker: Worker) -> None:
        rng = self.world.rng
        when = self.world.now + rng.choice((0.0, 0.3, 3.0)) * rng.random()
        self.world.at(when, worker, self.leave, worker)

    def leave(self, worker: Worker) -> None:
        if worker.left:
            return
        worker.left = True  # from now on the scenario starts no calls on this worker
        leaving = Leaving(worker, self.world.now)
        self.leavings.append(leaving)
        try:
            rpc.shutdown(timeout=PATIENCE_S)
        except Crashed:
            raise
        except RpcError as error:
            leaving.error = error
        leaving.ended = self.world.now
        self.world.at(self.world.now + 0.6, None, worker.crash)

    def check(self) -> None:
        for leaving in self.leavings:
            worker = leaving.worker
            is_gone = worker.died_at is not None and not leaving.ended
            assert is_gone or leaving.ended, f"{worker.name} is in its shutdown yet"
        if self.all_come_at_last():
            self.check_that_all_left_together()

    def all_come_at_last(self) -> bool:
        """Return whether workers were lost only before their shutdown, and all ranks rejoined."""
        came = [leaving.worker for leaving in self.leavings]
        lost = {worker for worker in self.group.workers if worker not in came}
        are_back = all(self.group.present(worker.rank) in came for worker in lost)
        all_ended = all(leaving.ended for leaving in self.leavings)
        come_once = len({worker.rank for worker in came}) == len(came)
        return {*self.broke} <= {"crash"} and are_back and come_once and all_ended

    def check_that_all_left_together(self) -> None:
        for leaving in self.leavings:
            assert leaving.error is None, f"{leaving.worker.name}: {leaving.error!r}"
        ends = [leaving.ended for leaving in self.leavings]
        last = max(leaving.began for leaving in self.leavings)
        assert min(ends) >= last, "one has left before the last had come"
        for op in self.ops:
            is_over = op.worker.died_at is not None and op.worker.died_at < min(ends)
            assert is_over or (op.ended and op.ended[0][0] <= min(ends)), (
                f"call {op.key} was cut off"
            )


@pytest.mark.one_in(8)
def test_whatever_breaks_all_who_live_leave_within_their_patience() -> None:
    try_seeds(Shutdowns, simulated_calls.scenarios, range(NUM_SEEDS))


# The seeds are split into parts because of pytest's time limit for a test.
@pytest.mark.slow
@pytest.mark.parametrize("first", range(NUM_SEEDS, 30_000, 1000))
def test_whatever_breaks_all_who_live_leave_within_their_patience_for_many_seeds(
    first: int,
) -> None:
    try_seeds(Shutdowns, simulated_calls.scenarios, range(first, first + 1000))
