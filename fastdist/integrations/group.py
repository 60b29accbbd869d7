"""The store of a group, and the loop that begins lives, waits for them and repeats them."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from fastdist.core.errors import StoreError, WorkerFailedError
from fastdist.distributed.restarts import ENDED, NO_RESTARTS
from fastdist.distributed.sockets import JobSecret
from fastdist.distributed.store import host_store
from fastdist.distributed.store.access import security_kind
from fastdist.launch.environment import Place
from fastdist.launch.flags import GROUP, WORKER
from fastdist.launch.lost_workers import LostWorker, LostWorkers

from .worker import Life, Outcome, Whereabouts

_logger = logging.getLogger(__name__)
# How long the loop waits for the engine before it looks for workers that were declared lost.
_LOOK_S = 0.5
# How long other workers may go on after one has failed, before their processes are ended.
GRACE_S = 5.0
# Variables of the driver that its workers get: all must agree on them.
_SETTINGS = ("FASTDIST_FROZEN_S", "FASTDIST_INIT_TIMEOUT", "FASTDIST_JOB_ID", "FASTDIST_SECURITY")


def settings_of_driver() -> dict[str, str]:
    """Return the variables of this process on which all workers must agree with it."""
    return {name: os.environ[name] for name in _SETTINGS if name in os.environ}


class Hub:
    """The store at which the workers of a group meet, served by this process, and their secret.

    Args:
        host: The address of this machine by which the workers reach it.

    Raises:
        StoreError: No port can be had there.

    Threads: any; another thread reads which workers were declared lost.
    """

    def __init__(self, host: str) -> None:
        self.host = host
        secret = None
        if security_kind(None) == "curve":
            secret = JobSecret.generate("made for a group of workers")
        self.secret = None if secret is None else secret.hex()
        self._store, self.port = host_store(host, secret=secret)
        self._lost: deque[LostWorker] = deque()
        self._closing = threading.Event()
        self._watch = LostWorkers(lambda: self._store, self._lost.append, self._closing)

    def tell_ended(self, rank: int, world_size: int) -> None:
        """Let no worker wait for one that has ended well."""
        self._store.tell_ended(rank, world_size)
        self._store.set(f"{ENDED}{rank}", b"")

    def begin_round(self) -> None:
        """Let all workers come again."""
        self._store.begin_round()

    def begin_run(self, world_size: int) -> None:
        """Forget what an earlier run of the group has left."""
        self._store.begin_round()
        for key in (NO_RESTARTS, *(f"{ENDED}{rank}" for rank in range(world_size))):
            self._store.delete_key(key)
        self._lost.clear()

    def tell_no_restarts(self) -> None:
        """Let no worker wait in its shutdown for a lost one to come back."""
        self._store.set(NO_RESTARTS, b"")

    def take_lost(self) -> list[LostWorker]:
        """Return the workers that others have declared lost since the last call."""
        return [self._lost.popleft() for _ in range(len(self._lost))]

    def close(self) -> None:
        """End the store and its threads."""
        self._closing.set()
        self._store.close()
        self._watch.join()


class Meeting(Protocol):
    """A Hub, or what calls one in another process."""

    host: str
    port: int
    secret: str | None

    def tell_ended(self, rank: int, world_size: int) -> None:
        """See Hub."""

    def begin_round(self) -> None:
        """See Hub."""

    def begin_run(self, world_size: int) -> None:
        """See Hub."""

    def tell_no_restarts(self) -> None:
        """See Hub."""

    def take_lost(self) -> list[LostWorker]:
        """See Hub."""


class Engine(Protocol):
    """Processes for the ranks of a group, as an engine starts, watches and ends them."""

    def start(self, ranks: Sequence[int]) -> dict[int, Whereabouts]:
        """Return where all ranks run, after a process was started for each of these.

        Raises  EngineError that names what is missing, within a bound
        """

    def begin(self, rank: int, life: Life) -> None:
        """Begin a life in the process of its rank."""

    def wait(self, timeout_s: float) -> Sequence[int]:
        """Return ranks whose life has ended, or an empty sequence when the time is over."""

    def outcome(self, rank: int) -> Outcome:
        """Return how the life of a rank that `wait` has returned ended."""

    def end(self, ranks: Sequence[int]) -> None:
        """End the processes of these ranks; `start` makes others."""


@dataclass(frozen=True)
class Run:
    """The size of a run, and its policy of restarts."""

    world_size: int
    max_restarts: int
    restart: str
    run_id: str

    def __post_init__(self) -> None:
        for name, value, least in (
            ("the number of workers", self.world_size, 1),
            ("max_restarts", self.max_restarts, 0),
        ):
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ValueError(f"{name} is {value!r}; expected a whole number, {least} or more")
        if self.restart not in (GROUP, WORKER):
            raise ValueError(f"restart is {self.restart!r}; expected {WORKER!r} or {GROUP!r}")


def supervise(engine: Engine, hub: Meeting, run: Run) -> list[Any]:
    """Run a life in each worker of a group until all have ended well; return their values by rank.

    A worker whose process is lost, whose function raises, or which others declare lost is started
    again, with restart="worker" alone and at most max_restarts times, else with all others.

    Raises  WorkerFailedError that names the rank and has its traceback, after all have ended;
            EngineError if a process cannot be had
    """
    return _Supervision(engine, hub, run).run()


class _Supervision:
    def __init__(self, engine: Engine, hub: Meeting, run: Run) -> None:
        self.engine, self.hub, self.plan = engine, hub, run
        self.counts = dict.fromkeys(range(run.world_size), 0)
        self.places: dict[int, Whereabouts] = {}
        self.values: dict[int, Any] = {}

    def run(self) -> list[Any]:
        try:
            self.hub.begin_run(self.plan.world_size)
            self._begin(range(self.plan.world_size))
            while len(self.values) < self.plan.world_size:
                failures = self._look(_LOOK_S)
                if failures:
                    self._repeat(failures)
            return [self.values[rank] for rank in range(self.plan.world_size)]
        except BaseException:
            self._end_all()
            raise

    def _end_all(self) -> None:
        with suppress(StoreError):
            self.hub.tell_no_restarts()
        self.engine.end(self._running())

    def _running(self) -> list[int]:
        return [rank for rank in self.counts if rank not in self.values]

    def _running_but(self, failures: dict[int, Outcome]) -> list[int]:
        return [rank for rank in self._running() if rank not in failures]

    def _begin(self, ranks: Sequence[int]) -> None:
        self.places = self.engine.start(ranks)
        for rank in ranks:
            self.engine.begin(rank, self._life(rank))

    def _life(self, rank: int) -> Life:
        nodes = [self.places[other].node for other in range(self.plan.world_size)]
        mine = nodes[rank]
        local_rank = nodes[:rank].count(mine)
        place = Place(
            first_rank=rank - local_rank,
            world_size=self.plan.world_size,
            node_rank=list(dict.fromkeys(nodes)).index(mine),
            local_world_size=nodes.count(mine),
            master_address=self.hub.host,
            master_port=self.hub.port,
            local_address=None,
        )
        return Life(
            place,
            local_rank,
            self.counts[rank],
            self.plan.run_id,
            self.plan.restart,
            self.plan.max_restarts,
            settings_of_driver(),
            self.hub.secret,
        )

    def _look(self, timeout_s: float) -> dict[int, Outcome]:
        """Return the failures since the last look, after at most that time."""
        failures: dict[int, Outcome] = {}
        for rank in self.engine.wait(timeout_s):
            outcome = self.engine.outcome(rank)
            if outcome.failure is not None:
                failures[rank] = outcome
                continue
            self.values[rank] = outcome.value
            with suppress(StoreError):  # then others wait as long as they would anyway
                self.hub.tell_ended(rank, self.plan.world_size)
        for lost in self.hub.take_lost():
            is_current = self.places[lost.rank].pid == lost.pid and lost.rank not in self.values
            if is_current and lost.rank not in failures and not lost.hangs:
                why = f"{lost.by} declared it lost: {lost.why}"
                failures[lost.rank] = Outcome(failure=why, is_lost=True)
        return failures

    def _repeat(self, failures: dict[int, Outcome]) -> None:
        """Start failed workers again, or all, or raise if none may be."""
        most = self.plan.max_restarts
        if self.plan.restart == WORKER:
            are_alone = bool(self.values) and not self._running_but(failures)
            if not are_alone and all(self.counts[rank] < most for rank in failures):
                self._begin_again(list(failures), failures)
                return
        failures = self._end_others(failures)
        if self.plan.restart == GROUP and max(self.counts.values()) < most:
            self.values.clear()
            self.hub.begin_round()
            self._begin_again(list(self.counts), failures)
            return
        rank, outcome = _first(failures)
        raise WorkerFailedError(_sentence(rank, outcome), rank) from outcome.error

    def _begin_again(self, ranks: list[int], failures: dict[int, Outcome]) -> None:
        for rank in ranks:
            self.counts[rank] += 1
        again = "all workers are" if self.plan.restart == GROUP else "it is"
        for rank, outcome in failures.items():
            count, most = self.counts[rank], self.plan.max_restarts
            sentence = _sentence(rank, outcome)
            _logger.warning("%s\n%s started again (restart %d of %d)", sentence, again, count, most)
        self.engine.end(ranks)
        self._begin(ranks)

    def _end_others(self, failures: dict[int, Outcome]) -> dict[int, Outcome]:
        """Wait until the other workers have ended, for a while; return all failures."""
        with suppress(StoreError):
            if self.plan.restart == WORKER:
                self.hub.tell_no_restarts()
        found, until = dict(failures), time.monotonic() + GRACE_S
        while self._running_but(found) and (left := until - time.monotonic()) > 0:
            found.update(self._look(min(left, _LOOK_S)))
        return found


def _first(failures: dict[int, Outcome]) -> tuple[int, Outcome]:
    """Return the failure that explains the others: these may only have lost their connection."""
    causes = [rank for rank in failures if not isinstance(failures[rank].error, ConnectionError)]
    rank = (causes or list(failures))[0]
    return rank, failures[rank]


def _sentence(rank: int, outcome: Outcome) -> str:
    how = "was lost: " if outcome.is_lost else "raised an exception:\n"
    return f"rank {rank} {how}{outcome.failure}"
