"""Four workers under random load and faults: nothing hangs, returns wrong results or leaks."""

from __future__ import annotations

import random
import signal
import threading

import pytest

from tests.distributed import soak
from tests.distributed.workers import Group

NUM_THREADS = 4


class Soak:
    """The group of workers that one seed tests, and the state of its workers."""

    def __init__(self, seed: int, seconds: float) -> None:
        self.rng = random.Random(seed)
        self.seed = seed
        self.seconds = seconds
        # Pass a secret: otherwise worker 0 writes one to a file, which a kill would leave behind.
        self.group = Group(soak.__file__, soak.WORLD_SIZE, {"FASTDIST_JOB_SECRET": "5e" * 32})
        self.alive = list(range(soak.WORLD_SIZE))
        self.waiter = threading.Event()

    def run(self, *, kill: bool) -> None:
        self.group.run_all(soak.init)
        self.round(1, kill=False)
        self.round(2, kill=kill)
        lost = [f"w{rank}" for rank in range(soak.WORLD_SIZE) if rank not in self.alive]
        for rank in self.alive:
            self.group[rank].start(soak.leave, lost)
        for rank in self.alive:
            assert self.group[rank].result() < 20
            assert self.group[rank].end() == 0

    def round(self, number: int, *, kill: bool) -> None:
        for rank in self.alive:
            self.group[rank].run(soak.begin, 10 * self.seed + number, NUM_THREADS, self.seconds)
        self.waiter.wait(self.seconds / 4)
        if kill:
            victim = self.rng.choice(self.alive)
            self.alive.remove(victim)
            self.group[victim].kill()
        self.freeze(self.rng.choice((0.3, 1.0, 3.0)))
        for rank in self.alive:
            self.group[rank].start(soak.end)
        wrong = [self.group[rank].result(100)[1] for rank in self.alive]
        assert wrong == [[]] * len(self.alive), f"seed {self.seed}"
        for rank in self.alive:
            self.group[rank].start(soak.wait_until_nothing_is_left)
        left = [self.group[rank].result() for rank in self.alive]
        assert left == [{}] * len(self.alive), f"seed {self.seed}"

    def freeze(self, seconds: float) -> None:
        victim = self.group[self.rng.choice(self.alive)]
        victim.kill(signal.SIGSTOP)
        self.waiter.wait(seconds)
        victim.kill(signal.SIGCONT)


def soak_with(seed: int, seconds: float, *, kill: bool) -> None:
    run = Soak(seed, seconds)
    try:
        run.run(kill=kill)
    finally:
        run.group.kill()


@pytest.mark.one_in(2)
def test_workers_that_freeze_and_die_among_calls_of_all_kinds_leave_nothing_behind() -> None:
    soak_with(1, 1.0, kill=True)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 12))
def test_workers_leave_nothing_behind_for_longer(seed: int) -> None:
    soak_with(seed, 10.0, kill=seed % 2 == 0)
