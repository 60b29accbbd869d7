"""A part of a worker's contexts, guarded by one lock."""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from typing import TYPE_CHECKING

from .context import DistAutogradContext

if TYPE_CHECKING:
    from ..rpc.workers.worker import Worker

AUTO_INCREMENT_BITS = 48
# The time after a context's release in which its late messages are refused.
TOMBSTONE_S = 60.0


class Tombstones(OrderedDict[int, float]):
    """Ids of ended contexts, in the order in which they ended; each id is kept for one minute."""

    def put(self, number: int) -> None:
        """Add an id, and remove the ids that were added more than a minute ago."""
        now = time.monotonic()
        while self and next(iter(self.values())) < now:
            self.popitem(last=False)
        self[number] = now + TOMBSTONE_S


class Shard:
    """The contexts whose ids have the same low bits, and the tombstones of ended contexts.

    Thread  any
    """

    __slots__ = ("contexts", "lock", "released")

    def __init__(self) -> None:
        # Guards the two fields below. A look-up of a context that is in use needs no lock.
        self.lock = threading.Lock()
        # The value is None for a context that was opened but not used yet. Many contexts are never
        # used. Other workers do not know an unused context.
        self.contexts: dict[int, DistAutogradContext | None] = {}
        self.released = Tombstones()

    def find(self, context_id: int) -> DistAutogradContext | None:
        """Return the context with this id, which is created on its first use; return None if no
        such context is open here.
        """
        context = self.contexts.get(context_id)
        if context is None:
            with self.lock:
                if context_id in self.contexts:
                    context = self.made(context_id)
        return context

    def made(self, context_id: int, owner: Worker | None = None) -> DistAutogradContext:
        """Return the context with this id; create it if missing. The caller holds the lock."""
        context = self.contexts.get(context_id)
        if context is None:
            context = self.contexts[context_id] = DistAutogradContext(context_id, owner)
        return context

    def take(self, context_id: int, *, may_come: bool = False) -> DistAutogradContext | None:
        """Remove a context, return it, and add its tombstone.

        With `may_come`, the tombstone is added even if no context with this id was found.

        Note    returns None for an unused context too, because no other worker knows it
        """
        with self.lock:
            context = self.contexts.pop(context_id, None)
            if context is not None or (may_come and context_id not in self.released):
                self.released.put(context_id)
        return context

    def clear(self) -> None:
        """Forget all contexts and tombstones."""
        with self.lock:
            self.contexts.clear()
            self.released.clear()


def number_of_shards() -> int:
    """Return the smallest power of two that is at least twice the number of hardware threads.

    Note    128 if that number is unknown
    """
    threads = os.cpu_count()
    return 128 if threads is None else 1 << (2 * threads - 1).bit_length()
