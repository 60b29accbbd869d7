"""A part of the contexts of a worker, under one lock."""

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
# For this long after the release of a context, late messages of it are refused.
TOMBSTONE_S = 60.0


class Tombstones(OrderedDict[int, float]):
    """Ids of ended contexts in the order of their ends; each is kept for one minute."""

    def put(self, number: int) -> None:
        """Add an id, and remove those whose minute has passed."""
        now = time.monotonic()
        while self and next(iter(self.values())) < now:
            self.popitem(last=False)
        self[number] = now + TOMBSTONE_S


class Shard:
    """The contexts whose ids have the same low bits, and tombstones of ended ones.

    Thread  any
    """

    __slots__ = ("contexts", "lock", "released")

    def __init__(self) -> None:
        # Guards the two fields below; a look-up of a context that has been used does not take it.
        self.lock = threading.Lock()
        # None stands for a context that was opened and not used yet. Many are never used, and other
        # workers do not know them.
        self.contexts: dict[int, DistAutogradContext | None] = {}
        self.released = Tombstones()

    def find(self, context_id: int) -> DistAutogradContext | None:
        """Return a context, or None if there is none; a context used for the first time is
        created.
        """
        context = self.contexts.get(context_id)
        if context is None:
            with self.lock:
                if context_id in self.contexts:
                    context = self.made(context_id)
        return context

    def made(self, context_id: int, owner: Worker | None = None) -> DistAutogradContext:
        """Return a context, and create it if there is none. The caller holds the lock."""
        context = self.contexts.get(context_id)
        if context is None:
            context = self.contexts[context_id] = DistAutogradContext(context_id, owner)
        return context

    def take(self, context_id: int, *, may_come: bool = False) -> DistAutogradContext | None:
        """Remove a context and add its tombstone; with may_come, add it even without a context.

        Note    an unused context is also returned as None, because no other worker knows it
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
