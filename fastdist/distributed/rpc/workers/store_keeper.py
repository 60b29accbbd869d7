"""Lets the store of a group survive the worker that hosts it."""

# If no launcher hosts the store, rank 0 hosts it, and the store ends with rank 0. A worker that is
# started again would then find no group, although members of the group live. So the members of a
# group with `restarts` check the store when a member is lost. If the store is gone, the first
# member that can bind the store's port hosts a new store. Only a member on the machine with the
# store's address can do this. Every member knows the secret that the host needs. All members then
# write the group to the new store (joining.py). They do the same if rank 0 is back and hosts an
# empty store. If no member can bind the port, all members try again until one can, or until rank 0
# is back.

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

from fastdist.core.errors import FastdistError, RpcError, StoreError
from fastdist.distributed.store import PrefixStore, Store, TCPStore
from fastdist.distributed.store.environment import store_is_hosted
from fastdist.system.foreign_text import one_line

from .directory import note_again, view
from .group import LOOK_S
from .joining import be_in_again
from .record import Record
from .worker import Worker
from .workers import Workers

_AGAIN_S: Final = 0.5

_logger = logging.getLogger(__name__)


class StoreKeeper:
    """Keeps the store of a group alive, on behalf of one worker of the group.

    `is_needed()` returns whether this worker still needs the store.

    Thread  any
    """

    def __init__(
        self, keys: PrefixStore, served: TCPStore, workers: Workers, is_needed: Callable[[], bool]
    ) -> None:
        self._keys = view(keys.prefix, keys.underlying_store, LOOK_S)
        self._served, self._workers, self._is_needed = served, workers, is_needed
        # Guards the two attributes below.
        self._lock = threading.Lock()
        self._is_looking = False
        self._lost: list[Record] = []
        # Whether a warning about the missing store was logged.
        self._has_reported = False

    def handle_lost(self, worker: Worker) -> None:
        """Check the store soon if the worker was lost: it may have hosted the store."""
        if not worker.why_lost:
            return
        with self._lock:
            self._lost.append(worker.record)
            is_looking, self._is_looking = self._is_looking, True
        if not is_looking:
            self._workers.call_after(0.0, self._look)

    def _look(self) -> None:
        with self._lock:
            lost = list(self._lost)
        is_kept = False
        try:
            is_kept = not self._is_needed() or self._keep(lost)
        finally:
            # Schedule the next check also after an error; the pool logs the error.
            if not is_kept:
                self._workers.call_after(_AGAIN_S, self._look)
        if not is_kept:
            return
        with self._lock:
            del self._lost[: len(lost)]
            self._is_looking = bool(self._lost)
            is_looking = self._is_looking
        if is_looking:
            self._workers.call_after(0.0, self._look)

    def _keep(self, lost: list[Record]) -> bool:
        """Restore the store and its entries of the group; return False if this must be repeated."""
        try:
            is_host = self._served.host_instead()
        except FastdistError as error:
            is_host = False
            _logger.debug("the store is not hosted here: %s", error)
        if is_host:
            _logger.warning(
                "worker %r hosts the store at %s:%d from now on, because its former host is gone",
                *(self._workers.me.name, self._served.host, self._served.port),
            )
        try:
            note_again(self._keys)
            be_in_again(self._keys, self._workers.group, lost)
            if self._workers.group.is_in_shutdown:
                self._workers.group.tell_shutdown()
        except StoreError as error:
            if not self._has_reported:
                self._has_reported = True
                _logger.warning(
                    "the store of the group cannot be reached, and worker %r cannot host it: "
                    "workers cannot come back until rank 0 is started again: %s",
                    *(self._workers.me.name, error),
                )
            return False
        except RpcError as error:
            _logger.error("the store belongs to another group: %s", one_line(error))
            return True
        self._has_reported = False
        self._workers.refresh()
        return True


def keeper_of(keys: Store, workers: Workers, is_needed: Callable[[], bool]) -> StoreKeeper | None:
    """Return the keeper for a store that a worker hosts, if the group's members may change."""
    served = keys
    while isinstance(served, PrefixStore):
        served = served.underlying_store
    if not (isinstance(keys, PrefixStore) and isinstance(served, TCPStore)):
        return None
    if not workers.group.takes_members_later or store_is_hosted():
        return None
    return StoreKeeper(keys, served, workers, is_needed)
