"""All contexts of this worker, and the ids that no other worker gives out."""

from __future__ import annotations

import itertools
import logging
import os
import threading
import time
from collections import OrderedDict

from ...core.errors import ContextError, ContextReleasedError, WorkerLostError
from ..rpc.agent import first_number, get_current_agent, is_current_agent_set
from .cleaner import Cleaner, ask_to_release
from .context import DistAutogradContext

_logger = logging.getLogger(__name__)

AUTO_INCREMENT_BITS = 48
AUTO_INCREMENT_MASK = (1 << AUTO_INCREMENT_BITS) - 1
MAX_WORKER_ID = 65535
INVALID_CONTEXT_ID = -1
# For so long a late message of a released context is refused instead of bringing the context back.
TOMBSTONE_S = 60.0


class _Current(threading.local):
    context_id = INVALID_CONTEXT_ID


_current = _Current()


class _Shard:
    """Some of the contexts, under a lock of their own."""

    __slots__ = ("contexts", "lock", "released")

    def __init__(self) -> None:
        # Guards the two below; a look-up by id goes without it.
        self.lock = threading.Lock()
        self.contexts: dict[int, DistAutogradContext] = {}
        # Tombstones, and when each may go, in the order in which they were put up.
        self.released: OrderedDict[int, float] = OrderedDict()

    def take(self, context_id: int, *, may_come: bool = False) -> DistAutogradContext | None:
        """Take a context out and put a tombstone in its place, or where it may come yet."""
        now = time.monotonic()
        with self.lock:
            context = self.contexts.pop(context_id, None)
            if context is not None or (may_come and context_id not in self.released):
                while self.released and next(iter(self.released.values())) < now:
                    self.released.popitem(last=False)
                self.released[context_id] = now + TOMBSTONE_S
        return context

    def forget_released(self, owner: int) -> None:
        """Let ids of a worker come again: who takes its rank gives them out anew."""
        with self.lock:
            for context_id in [i for i in self.released if i >> AUTO_INCREMENT_BITS == owner]:
                del self.released[context_id]

    def clear(self) -> None:
        """Forget all contexts and tombstones."""
        with self.lock:
            self.contexts.clear()
            self.released.clear()


class DistAutogradContainer:
    """The process's contexts by id. One for the process: `get_instance` returns it after `init`.

    Thread  any; a context is found under its shard's lock alone, and no message is sent while one
            is held
    Source  PyTorch, torch/csrc/distributed/autograd/context/container.cpp
    """

    def __init__(self) -> None:
        self.initialized = False
        self.worker_id = 0
        self.max_id = 0
        count = number_of_shards()
        assert count & (count - 1) == 0, "the number of shards must be a power of two"
        self._shards = tuple(_Shard() for _ in range(count))
        self._mask = count - 1
        self._next_context = itertools.count()
        self._next_message = itertools.count()
        self.cleaner = Cleaner(ask_to_release)

    def start(self, worker_id: int) -> None:
        """Give out ids of this worker from now on."""
        self.worker_id = worker_id
        first = worker_id << AUTO_INCREMENT_BITS | first_number()
        self._next_context, self._next_message = itertools.count(first), itertools.count(first)
        self.max_id = worker_id << AUTO_INCREMENT_BITS | AUTO_INCREMENT_MASK
        self.initialized = True

    def _shard(self, context_id: int) -> _Shard:
        return self._shards[context_id & self._mask]

    def new_autograd_message_id(self) -> int:
        """Return an id that joins one send and its receive; unique among all workers."""
        message_id = next(self._next_message)
        assert message_id < self.max_id, "the autograd message ids of this worker are used up"
        return message_id

    def get_or_create_context(
        self, context_id: int, brought_by: int | None = None
    ) -> DistAutogradContext:
        """Return the context, made now if a message brought its id here for the first time.

        Raises  ContextReleasedError for one that was released here a short while ago;
                WorkerLostError for one that is brought, or owned, by a worker that is lost
        """
        shard = self._shard(context_id)
        context = shard.contexts.get(context_id)
        if context is not None:
            return context
        with shard.lock:
            context = shard.contexts.get(context_id)
            if context is None:
                if context_id in shard.released:
                    raise ContextReleasedError(
                        f"Could not find autograd context with id: {context_id}: it was released "
                        "before this message came; keep the context open until all its calls are "
                        "done"
                    )
                if brought_by is not None:
                    # Under the lock: what was there when a worker was lost is found when that is
                    # settled.
                    _require_alive(brought_by, context_id >> AUTO_INCREMENT_BITS)
                context = shard.contexts[context_id] = DistAutogradContext(context_id)
        return context

    def new_context(self) -> DistAutogradContext:
        """Open a context and make it this thread's current one.

        Raises  ContextError if the thread has one
        """
        _require_no_current()
        context_id = next(self._next_context)
        assert context_id < self.max_id, "the context ids of this worker are used up"
        context = DistAutogradContext(context_id)
        shard = self._shard(context_id)
        with shard.lock:
            shard.contexts[context_id] = context
        _current.context_id = context_id
        return context

    def has_valid_context(self) -> bool:
        """Return whether this thread is inside a context."""
        return _current.context_id != INVALID_CONTEXT_ID

    def current_context(self) -> DistAutogradContext:
        """Return this thread's context.

        Raises  ContextError outside of any, or if it was released meanwhile
        """
        context_id = _current.context_id
        if context_id == INVALID_CONTEXT_ID:
            raise ContextError(
                "Current thread doesn't have a valid autograd context. Please wrap your code "
                "using: `with torch.distributed.autograd.context() as context_id` to generate a "
                "valid context "
                "(here: `with fastdist.distributed.autograd.context() as context_id`)"
            )
        context = self._shard(context_id).contexts.get(context_id)
        if context is None:
            raise released_inside(context_id)
        return context

    def retrieve_context(self, context_id: int) -> DistAutogradContext:
        """Return the context of an id.

        Raises  ContextError if this worker has none
        """
        context = self.find_context(context_id)
        if context is None:
            raise ContextError(
                f"Could not find autograd context with id: {context_id}: it was released, or never "
                "reached this worker"
            )
        return context

    def find_context(self, context_id: int) -> DistAutogradContext | None:
        """Return the context of an id, None if this worker has none."""
        return self._shard(context_id).contexts.get(context_id)

    def is_valid_context(self, context_id: int) -> None:
        """Raise ContextError if this worker has no such context."""
        self.retrieve_context(context_id)

    def release_context(self, context_id: int) -> None:
        """Forget one context here, and ask every worker it touched to do the same.

        Thread  any; does not wait for the peers, which are asked up to 20 times each
        Raises  ContextError if this worker has no such context
        """
        if not self._release(context_id):
            raise ContextError(f"Could not find autograd context with id: {context_id}")

    def release_context_if_present(self, context_id: int, told_by: int | None = None) -> None:
        """Do the same, silently if there is none; told_by is the worker that asked, if one did."""
        self._release(context_id, told_by)

    def _release(self, context_id: int, told_by: int | None = None) -> bool:
        # Whoever is asked to release it may have a message of it that waits to be run.
        context = self._shard(context_id).take(context_id, may_come=told_by is not None)
        if _current.context_id == context_id:
            _current.context_id = INVALID_CONTEXT_ID
        if context is None:
            return False
        # First: a pass that begins now is refused, or seen.
        workers = context.close()
        task = context.graph_task()
        if task is not None and not task.future.done():
            task.set_exception(
                ContextReleasedError(f"context {context_id} was released during a backward pass")
            )
        # The lock is dropped: only now are messages sent.
        self.send_release_context_rpc(workers - {told_by}, context_id)
        return True

    def send_release_context_rpc(self, worker_ids: set[int], context_id: int) -> None:
        """Let workers hear, in a few milliseconds, that a context is over.

        Never raises: where a message does not arrive, the lease on the owner's life does the rest.
        """
        if not worker_ids:
            return
        if not is_current_agent_set():
            _logger.info(
                "no RPC agent: context %d is not released on workers %s",
                context_id,
                sorted(worker_ids),
            )
            return
        self.cleaner.add(worker_ids, context_id)

    def number_of_contexts(self) -> int:
        """Return how many contexts there are."""
        total = 0
        for shard in self._shards:
            with shard.lock:
                total += len(shard.contexts)
        return total

    def all_contexts(self) -> list[DistAutogradContext]:
        """Return every context of this worker."""
        found: list[DistAutogradContext] = []
        for shard in self._shards:
            with shard.lock:
                found += shard.contexts.values()
        return found

    def forget_released_of(self, owner: int) -> None:
        """Take down the tombstones of a worker's contexts, when it is lost or has left."""
        for shard in self._shards:
            shard.forget_released(owner)

    def number_of_shards(self) -> int:
        """Return into how many locks the contexts are spread."""
        return len(self._shards)

    def stop(self) -> None:
        """Forget everything."""
        # First, so that a function that outlived RPC leaves nothing to the next group.
        self.initialized = False
        self.cleaner.stop()
        for shard in self._shards:
            shard.clear()


def _require_alive(brought_by: int, owner: int) -> None:
    agent = get_current_agent()
    if agent.is_dead(brought_by):
        raise WorkerLostError(f"worker {brought_by}, which sent this, was lost")
    if agent.is_dead(owner):
        # Nobody may be left who tells this worker that the context is over.
        raise WorkerLostError(f"worker {owner}, in whose context this was sent, was lost")


def released_inside(context_id: int) -> ContextError:
    """Return the error of a thread whose current context is over."""
    return ContextError(
        "Couldn't find autograd context data for current autograd context id: "
        f"{context_id} was released while this thread was inside it"
    )


def number_of_shards() -> int:
    """Return the smallest power of two that is at least twice the hardware threads.

    Note    128 where their number is unknown
    """
    threads = os.cpu_count()
    return 128 if threads is None else 1 << (2 * threads - 1).bit_length()


def _require_no_current() -> None:
    if _current.context_id != INVALID_CONTEXT_ID:
        raise ContextError(
            "Already have an autograd context id for this thread. "
            f"Leave the context {_current.context_id} first: contexts do not nest"
        )


def current_context_id() -> int:
    """Return this thread's context id; -1 outside of any context."""
    return _current.context_id


def force_current_context_id(context_id: int) -> None:
    """Make context_id this thread's, whatever was there: request handlers do."""
    _current.context_id = context_id


def set_current_context_id(context_id: int) -> None:
    """Make context_id this thread's, which must have none."""
    assert _current.context_id == INVALID_CONTEXT_ID, (
        "Already have an autograd context id for this thread."
    )
    _current.context_id = context_id


def clear_current_context_id() -> None:
    """Leave this thread without a context."""
    _current.context_id = INVALID_CONTEXT_ID


_container = DistAutogradContainer()
_container_lock = threading.Lock()


def init(worker_id: int) -> DistAutogradContainer:
    """Make this worker able to open contexts; again with the same id does nothing.

    Raises  ContextError for an id outside of 0 to 65535, or another id than before
    """
    if not 0 <= worker_id <= MAX_WORKER_ID:
        raise ContextError(f"worker_id needs to be in the range [0, 65535]: got {worker_id}")
    with _container_lock:
        if _container.initialized:
            if _container.worker_id != worker_id:
                raise ContextError(
                    "Container is already initialized with worker_id: "
                    f"{_container.worker_id}, cannot initialize with different worker_id: "
                    f"{worker_id}"
                )
            _logger.info(
                "DistAutogradContainer is already initialized with worker_id %d", worker_id
            )
            return _container
        _container.start(worker_id)
        return _container


def get_instance() -> DistAutogradContainer:
    """Return the container.

    Raises  ContextError before init
    """
    if not _container.initialized:
        raise ContextError(
            "Need to initialize distributed autograd using torch.distributed.autograd.init() "
            "(here: fastdist.distributed.rpc.init_rpc does it)"
        )
    return _container


def release_if_present(context_id: int) -> None:
    """Release a context at the end of its block, also if RPC was shut down inside of it."""
    if _current.context_id == context_id:
        _current.context_id = INVALID_CONTEXT_ID
    if _container.initialized:
        _container.release_context_if_present(context_id)


def stop() -> None:
    """Forget all contexts and ids, when RPC has shut down: the next group starts anew."""
    _container.stop()
