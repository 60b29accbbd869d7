"""Handles workers that other workers have reported in the store as lost or hanging."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass

from fastdist.core.errors import StoreError
from fastdist.distributed.restarts import DECLARED_LOST
from fastdist.distributed.store import Store
from fastdist.launch.worker_process import WorkerProcess

# In this time a thread that computes uses more than _IDLE_TICKS ticks (10 ms) of processor time,
# even on a busy machine. A thread that waits for the interpreter lock uses 2 ticks, because it
# wakes every 5 ms.
PROGRESS_S = 10.0
_IDLE_TICKS = 10
_LOOK_S = 0.5
_CLOSE_S = 2.0


@dataclass(frozen=True)
class LostWorker:
    """A worker that another worker has declared lost: its rank, its process, and the reason.

    `hangs` means that the process is alive but its Python code does not answer; it may be
    computing.
    """

    rank: int
    pid: int
    by: str
    why: str
    hangs: bool = False


class Hangs:
    """Checks during PROGRESS_S whether a worker that was reported as hanging makes progress.

    Thread  only the launcher's main thread
    """

    def __init__(self) -> None:
        # Worker -> the end of the watch, the threads' processor times at the watch's start, the
        # report.
        self._watched: dict[WorkerProcess, tuple[float, dict[str, int], LostWorker]] = {}

    def watch(self, worker: WorkerProcess, lost: LostWorker, now: float) -> None:
        """Watch a worker for PROGRESS_S, beginning at `now`."""
        self._watched.setdefault(worker, (now + PROGRESS_S, worker.thread_ticks(), lost))

    def next_look(self) -> float:
        """Return when the next watch ends; math.inf if no worker is watched."""
        return min((until for until, _, _ in self._watched.values()), default=math.inf)

    def without_progress(self, now: float) -> list[tuple[WorkerProcess, LostWorker]]:
        """Return the workers that made no progress while they were watched."""
        due = [worker for worker, (until, _, _) in self._watched.items() if until <= now]
        found = []
        for worker in due:
            _, before, lost = self._watched.pop(worker)
            if worker.status is None and before and _is_idle(before, worker.thread_ticks()):
                found.append((worker, lost))
        return found


def _is_idle(before: Mapping[str, int], now: Mapping[str, int]) -> bool:
    """Return whether the process has the same threads as before, and each was idle."""
    return before.keys() == now.keys() and all(
        now[thread] - before[thread] <= _IDLE_TICKS for thread in now
    )


class LostWorkers:
    """A thread that reads from the store which workers were declared lost, and reports them.

    `find_store()` returns the store, or None before there is a store; after a reconnection it
    returns a new store. `closing` ends the thread, immediately if the store is closed as well.

    Thread  `join`: the thread that created it; `tell` is called in the new thread
    """

    def __init__(
        self,
        find_store: Callable[[], Store | None],
        tell: Callable[[LostWorker], None],
        closing: threading.Event,
    ) -> None:
        self._find_store, self._tell, self._closing = find_store, tell, closing
        # Incarnations that were declared lost. Their later declarations are ignored, because a
        # worker that is cut off from the network declares all other workers lost.
        self._gone: set[int] = set()
        self._num_read = 0
        self._thread = threading.Thread(
            target=self._watch, name="fastdist-launch-lost-workers", daemon=True
        )
        self._thread.start()

    def join(self) -> None:
        """Wait until the thread has ended."""
        self._thread.join(_CLOSE_S)

    def _watch(self) -> None:
        while not self._closing.is_set():
            store = self._find_store()
            if store is not None:
                try:
                    self._watch_in(store)
                except StoreError:
                    pass  # closed, or disconnected: another thread of the launcher reconnects
            self._closing.wait(_LOOK_S)

    def _watch_in(self, store: Store) -> None:
        with closing(store.watch(DECLARED_LOST)) as watch:
            while not self._closing.is_set():
                change = watch.next(_LOOK_S)
                if change is not None and change.value is not None:
                    self._read(change.value)

    def _read(self, log: bytes) -> None:
        lines = log.decode(errors="replace").splitlines()
        for line in lines[self._num_read :]:
            try:
                giver, gone, rank, pid, by, why, hangs = json.loads(line)
            except ValueError:
                continue  # not written by fastdist
            if giver in self._gone or gone in self._gone:
                continue
            if not hangs:
                self._gone.add(gone)
            self._tell(LostWorker(rank, pid, by, why, hangs))
        self._num_read = len(lines)
