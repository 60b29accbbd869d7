"""The store of a group, and the loop that starts the group's workers and restarts them."""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from collections import Counter, deque
from collections.abc import Collection, Mapping, Sequence
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
# Seconds for which the loop waits for the engine before it checks for lost workers.
_LOOK_S = 0.5
# After a failure, the other workers may run for this many seconds before their processes are ended.
GRACE_S = 5.0
# Variables of the driver that are passed to its workers: all processes must agree on them.
_SETTINGS = ("FASTDIST_FROZEN_S", "FASTDIST_INIT_TIMEOUT", "FASTDIST_JOB_ID", "FASTDIST_SECURITY")


def settings_of_driver() -> dict[str, str]:
    """Return the variables of this process that workers must share with it."""
    return {name: os.environ[name] for name in _SETTINGS if name in os.environ}


class Hub:
    """The store and the secret of a group; this process serves the store.

    Raises  StoreError if no port is available at that address

    Args:
        host: The address by which workers reach this machine.

    Threads: any; a background thread reads reports of lost workers.
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
        """Record that a worker has ended successfully, so that no other worker waits for it."""
        self._store.tell_ended(rank, world_size)
        self._store.set(f"{ENDED}{rank}", b"")

    def begin_round(self) -> None:
        """Begin a new round, in which all workers join again."""
        self._store.begin_round()

    def begin_run(self, world_size: int) -> None:
        """Remove the state of an earlier run of the group."""
        self._store.begin_round()
        for key in (NO_RESTARTS, *(f"{ENDED}{rank}" for rank in range(world_size))):
            self._store.delete_key(key)
        self._lost.clear()

    def tell_no_restarts(self) -> None:
        """Tell workers not to wait at shutdown for a lost worker to be restarted."""
        self._store.set(NO_RESTARTS, b"")

    def take_lost(self) -> list[LostWorker]:
        """Return the workers that other workers have declared lost since the last call."""
        return [self._lost.popleft() for _ in range(len(self._lost))]

    def close(self) -> None:
        """Close the store and end its threads."""
        self._closing.set()
        self._store.close()
        self._watch.join()


class Meeting(Protocol):
    """The interface of a Hub, and of a proxy for a Hub in another process."""

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
    """The interface of an engine, which starts, watches and ends one process per rank."""

    def start(self, ranks: Sequence[int]) -> dict[int, Whereabouts]:
        """Start a process for each of these ranks; return the whereabouts of all ranks' processes.

        Raises  EngineError after a timeout, with a text that says what is missing
        """

    def begin(self, rank: int, life: Life) -> None:
        """Begin a life in the process of a rank."""

    def wait(self, timeout_s: float) -> Sequence[int]:
        """Return ranks whose life has ended; an empty sequence after the timeout."""

    def outcome(self, rank: int) -> Outcome:
        """Return the outcome of a rank that `wait` has returned."""

    def end(self, ranks: Sequence[int]) -> None:
        """End the processes of these ranks; `start` creates new ones."""


@dataclass(frozen=True)
class Run:
    """The size of a run, and its restart policy."""

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


def require_seconds(name: str, value: object) -> None:
    """Raise ValueError for a number of seconds that is not positive, TypeError for another type."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} is {value!r}; expected a number of seconds")
    if not 0.0 < value < math.inf:
        raise ValueError(f"{name} is {value!r}; expected a positive number of seconds")


def names_of(workers: object) -> list[Any] | None:
    """Return the names or addresses that a user lists as `workers`; None for a number.

    Raises  TypeError if workers is neither None, a number nor a list; ValueError if a name is in
            the list more than once
    """
    if workers is None or isinstance(workers, int):
        return None
    if isinstance(workers, (str, bytes, Mapping)) or not isinstance(workers, Collection):
        raise TypeError(
            f"workers is {workers!r}; expected a number, or a list of workers' names or addresses "
            "(arguments of train follow it: run(client, train, 4, config))"
        )
    # Dask's names may be numbers, which users also write as text.
    twice = [name for name, times in Counter(map(str, workers)).items() if times > 1]
    if twice:
        raise ValueError(f"workers has {', '.join(map(repr, twice))} more than once")
    return list(workers)


def supervise(engine: Engine, hub: Meeting, run: Run) -> list[Any]:
    """Run all workers of a group until each has ended successfully, and return the results of the
    workers' functions by rank.

    A worker is restarted at most max_restarts times if its process is lost, its function raises, or
    other workers declare it lost. With restart="worker" only this worker is restarted, otherwise
    all workers are.

    Raises  WorkerFailedError with the failed worker's rank and traceback, after all workers have
            ended; EngineError if a process cannot be started
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
        """Wait at most timeout_s, and return the failures since the last call."""
        failures: dict[int, Outcome] = {}
        for rank in self.engine.wait(timeout_s):
            outcome = self.engine.outcome(rank)
            if outcome.failure is not None:
                failures[rank] = outcome
                continue
            self.values[rank] = outcome.value
            with suppress(StoreError):  # on failure, other workers wait until they time out
                self.hub.tell_ended(rank, self.plan.world_size)
        for lost in self.hub.take_lost():
            is_current = self.places[lost.rank].pid == lost.pid and lost.rank not in self.values
            if is_current and lost.rank not in failures and not lost.hangs:
                why = f"{lost.by} declared it lost: {lost.why}"
                failures[lost.rank] = Outcome(failure=why, is_lost=True)
        return failures

    def _repeat(self, failures: dict[int, Outcome]) -> None:
        """Restart the failed workers, or all workers; raise an error if no restart is allowed."""
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
        again, most = "%s\n%s started again (restart %d of %d)", self.plan.max_restarts
        lines = {rank: _sentence(rank, outcome) for rank, outcome in failures.items()}
        if self.plan.restart == GROUP:
            text = "\n".join(lines.values())
            _logger.warning(again, text, "all workers are", self.counts[ranks[0]], most)
        else:
            for rank, line in lines.items():
                _logger.warning(again, line, "it is", self.counts[rank], most)
        self.engine.end(ranks)
        self._begin(ranks)

    def _end_others(self, failures: dict[int, Outcome]) -> dict[int, Outcome]:
        """Wait at most GRACE_S for the other workers to end; return the old and new failures."""
        with suppress(StoreError):
            if self.plan.restart == WORKER:
                self.hub.tell_no_restarts()
        found, until = dict(failures), time.monotonic() + GRACE_S
        while self._running_but(found) and (left := until - time.monotonic()) > 0:
            found.update(self._look(min(left, _LOOK_S)))
        return found


def _first(failures: dict[int, Outcome]) -> tuple[int, Outcome]:
    """Return the rank and the outcome of the first failure that is not a lost connection, because a
    lost connection may be the result of another failure.
    """
    causes = [rank for rank in failures if not isinstance(failures[rank].error, ConnectionError)]
    rank = (causes or list(failures))[0]
    return rank, failures[rank]


def _sentence(rank: int, outcome: Outcome) -> str:
    how = "was lost: " if outcome.is_lost else "raised an exception:\n"
    return f"rank {rank} {how}{outcome.failure}"
