"""Answers requests of `fastdist top` in the store with readings of this node's workers."""

from __future__ import annotations

import json
import selectors
import socket
import threading
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

from fastdist.core.errors import StoreError
from fastdist.distributed.monitor.answers import socket_path
from fastdist.distributed.store import Store
from fastdist.launch.environment import Place
from fastdist.launch.gathering import ROOT

ASK = f"{ROOT}top/ask/"
ANSWER = f"{ROOT}top/answer/"
# A worker that does not answer within this time is shown as silent.
WORKERS_S = 1.0
_WATCH_S = 3600.0
_PAUSE_S = 0.5
_CLOSE_S = 2.0


class MonitorRelay:
    """A thread that answers requests in the store with readings of this node's workers.

    `find_store()` and `find_place()` return the store and the node's place in the job, or None
    before they exist. `closing` ends the thread, immediately if the store is closed as well.

    Thread  `join`: the thread that created it
    """

    def __init__(
        self,
        folder: str,
        find_store: Callable[[], Store | None],
        find_place: Callable[[], Place | None],
        closing: threading.Event,
    ) -> None:
        self._folder, self._find_store, self._find_place = folder, find_store, find_place
        self._closing = closing
        self._thread = threading.Thread(
            target=self._run, name="fastdist-launch-monitor", daemon=True
        )
        self._thread.start()

    def join(self) -> None:
        """Wait until the thread has ended."""
        self._thread.join(_CLOSE_S)

    def _run(self) -> None:
        while not self._closing.is_set():
            store = self._find_store()
            if store is not None and self._find_place() is not None:
                try:
                    self._watch(store)
                except StoreError:
                    pass  # closed, or disconnected: another thread of the launcher reconnects
            self._closing.wait(_PAUSE_S)

    def _watch(self, store: Store) -> None:
        with closing(store.watch(ASK)) as watch:
            while not self._closing.is_set():
                change = watch.next(_WATCH_S)
                place = self._find_place()
                if change is not None and change.value is not None and place is not None:
                    name = f"{change.key.removeprefix(ASK)}/{change.value.decode()}"
                    workers = read_workers(self._folder, place)
                    store.set(f"{ANSWER}{name}/{place.node_rank}", json.dumps(workers))


def read_workers(folder: str, place: Place) -> list[dict[str, Any]]:
    """Return a reading of each worker of this node, ordered by rank.

    The reading of a worker that has not joined a group, or does not answer in time, has only the
    rank, and the reason under `silent`.
    """
    last = place.first_rank + place.local_world_size
    found: dict[int, dict[str, Any]] = {}
    texts: dict[int, bytes] = {}
    with selectors.DefaultSelector() as selector:
        for rank in range(place.first_rank, last):
            connection = socket.socket(socket.AF_UNIX)
            connection.setblocking(False)
            try:
                connection.connect(socket_path(folder, rank))
            except OSError:  # no file, no listener, or a full queue
                connection.close()
                found[rank] = {"rank": rank, "silent": "has not joined a group, or has ended"}
                continue
            texts[rank] = b""
            selector.register(connection, selectors.EVENT_READ, rank)
        until = time.monotonic() + WORKERS_S
        while selector.get_map() and (left_s := until - time.monotonic()) > 0:
            for key, _ in selector.select(left_s):
                if _has_ended(key, texts):
                    selector.unregister(key.fileobj)
                    key.fileobj.close()  # type: ignore[union-attr]
                    found[key.data] = _reading(key.data, texts[key.data])
        for key in list(selector.get_map().values()):
            key.fileobj.close()  # type: ignore[union-attr]
            silent = f"does not answer within {WORKERS_S:g} s: stopped, or busy in one call"
            found[key.data] = {"rank": key.data, "silent": silent}
    return [found[rank] for rank in sorted(found)]


def _has_ended(key: selectors.SelectorKey, texts: dict[int, bytes]) -> bool:
    try:
        chunk: bytes = key.fileobj.recv(1 << 16)  # type: ignore[union-attr]
    except BlockingIOError:
        return False
    except OSError:
        return True
    texts[key.data] += chunk
    return not chunk


def _reading(rank: int, text: bytes) -> dict[str, Any]:
    try:
        return {**json.loads(text), "rank": rank}
    except ValueError:  # the worker ended while it wrote the answer
        return {"rank": rank, "silent": "has just ended"}
