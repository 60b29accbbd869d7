"""Workers that others of their job have declared lost, as the store tells: frozen ones, mostly."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

from fastdist.core.errors import StoreError
from fastdist.distributed.restarts import DECLARED_LOST
from fastdist.distributed.store import Store

_LOOK_S = 0.5
_CLOSE_S = 2.0


@dataclass(frozen=True)
class LostWorker:
    """A worker that another one has declared lost: its rank, its process, and the reason."""

    rank: int
    pid: int
    by: str
    why: str


class LostWorkers:
    """A thread that reads from the store which workers were declared lost, and passes them on.

    `find_store()` returns the store, None while there is none yet; another one after a cut.

    Thread  `close`: the one that made it; `tell` is called by the thread of this
    """

    def __init__(
        self, find_store: Callable[[], Store | None], tell: Callable[[LostWorker], None]
    ) -> None:
        self._find_store, self._tell = find_store, tell
        self._closing = threading.Event()
        # Lives that were declared lost. Later declarations of theirs are ignored: a worker that was
        # cut off takes all others for lost.
        self._gone: set[int] = set()
        self._num_read = 0
        self._thread = threading.Thread(
            target=self._watch, name="fastdist-launch-lost-workers", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """End the thread."""
        self._closing.set()
        self._thread.join(_CLOSE_S)

    def _watch(self) -> None:
        while not self._closing.is_set():
            store = self._find_store()
            if store is not None:
                try:
                    self._watch_in(store)
                except StoreError:
                    pass  # closed, or cut off: the launcher's other thread finds it again
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
                giver, gone, rank, pid, by, why = json.loads(line)
            except ValueError:
                continue  # none of ours wrote it
            if giver in self._gone or gone in self._gone:
                continue
            self._gone.add(gone)
            self._tell(LostWorker(rank, pid, by, why))
        self._num_read = len(lines)
