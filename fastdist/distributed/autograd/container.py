"""All contexts of this worker, and ids that are unique among the workers."""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from fastdist.core.folded_frames import fold

from ...core.errors import ContextError, ContextReleasedError, WorkerLostError
from ..rpc.agent import get_current_agent, id_offset
from ..rpc.debug_log import debug_log
from ..rpc.message.ids import MAX_WORKER_ID, id_text, with_decimal
from ..rpc.torch_names.argument_errors import incompatible
from ..rpc.workers.record import in_words
from .context import DistAutogradContext
from .endings import EndsEverywhere
from .shard import AUTO_INCREMENT_BITS, Shard, number_of_shards

if TYPE_CHECKING:
    from ..rpc.workers.worker import Worker

_logger = logging.getLogger(__name__)

AUTO_INCREMENT_MASK = (1 << AUTO_INCREMENT_BITS) - 1
INVALID_CONTEXT_ID = -1


class _Current(threading.local):
    context_id = INVALID_CONTEXT_ID


_current = _Current()


class DistAutogradContainer(EndsEverywhere):
    """The contexts of this process by id. `get_instance` returns the only instance after `init`.

    Thread  any; a look-up takes the lock of one shard, and no message is sent while a lock is held
    Source  PyTorch, torch/csrc/distributed/autograd/context/container.cpp
    """

    what, ids = "context", "context_ids"
    failure, level = "Could not release Dist Autograd Context", logging.WARNING

    def __init__(self) -> None:
        self.initialized = False
        self.worker_id = 0
        self.max_id = 0
        count = number_of_shards()
        assert count & (count - 1) == 0, "the number of shards must be a power of two"
        self.shards = tuple(Shard() for _ in range(count))
        self.mask = count - 1
        self.context_ids = itertools.count()
        self._next_message = itertools.count()

    def start(self, worker_id: int) -> None:
        """Start to generate ids for this worker."""
        self.worker_id = worker_id
        first = worker_id << AUTO_INCREMENT_BITS | id_offset()
        self.context_ids, self._next_message = itertools.count(first), itertools.count(first)
        self.max_id = worker_id << AUTO_INCREMENT_BITS | AUTO_INCREMENT_MASK
        self.initialized = True

    def _shard(self, context_id: int) -> Shard:
        return self.shards[context_id & self.mask]

    def new_autograd_message_id(self) -> int:
        """Return an id that joins one send and its receive; it is unique among all workers."""
        message_id = next(self._next_message)
        assert message_id < self.max_id, "the autograd message ids of this worker are used up"
        return message_id

    def get_or_create_context(
        self, context_id: int, brought_by: Worker | None = None, life: object = None
    ) -> DistAutogradContext:
        """Return the context with an id; create it if this is the first message with that id.

        `life` is the incarnation of the context's owner if the owner is neither this worker nor the
        sender.

        Raises  ContextReleasedError if the context was released a short while ago; WorkerLostError
                if the sender or the owner of the context is lost
        """
        shard = self._shard(context_id)
        context = shard.contexts.get(context_id)
        if context is not None:
            return context
        owner = None if brought_by is None else self._owner_of(context_id, brought_by, life)
        with shard.lock:
            if context_id not in shard.contexts:
                if context_id in shard.released:
                    raise ContextReleasedError(
                        f"{_unknown(context_id)}: it was released before this message arrived; "
                        "keep the context open until all its calls are done"
                    )
                if brought_by is not None:
                    # Checked under the lock: handling a loss ends the contexts that exist by then,
                    # so a context of a lost worker must not be added afterwards.
                    _require_alive(brought_by, owner)
            context = shard.made(context_id, owner)
        if debug_log.of_autograd:
            who = None if brought_by is None else brought_by.id
            debug_log.context(
                self.worker_id, context_id, "was created by a message of rank %s", who
            )
        return context

    def _owner_of(self, context_id: int, brought_by: Worker, life: object) -> Worker | None:
        """Return the owner of a context; None for this worker. The id has only the owner's rank.

        Raises  WorkerLostError if `life` is not the present incarnation of that rank
        """
        rank = context_id >> AUTO_INCREMENT_BITS
        if life is None and rank == self.worker_id:
            return None
        if life is None and rank == brought_by.id:
            return brought_by
        owner = get_current_agent().workers.find_life(rank, life)
        if owner is None:
            raise _owner_lost(get_current_agent().workers.in_words(rank))
        return None if owner.is_self else owner

    def new_context(self) -> DistAutogradContext:
        """Open a context and make it the current one of this thread.

        Raises  ContextError if the thread has a context
        """
        return self.retrieve_context(context().__enter__())

    def has_valid_context(self) -> bool:
        """Return whether this thread is inside a context."""
        return _current.context_id != INVALID_CONTEXT_ID

    def current_context(self) -> DistAutogradContext:
        """Return this thread's context.

        Raises  ContextError outside of any context, or if the context was released meanwhile
        """
        context_id = _current.context_id
        if context_id == INVALID_CONTEXT_ID:
            raise ContextError(
                "Current thread doesn't have a valid autograd context. Please wrap your code "
                "using: `with torch.distributed.autograd.context() as context_id` to generate a "
                "valid context "
                "(here: `with fastdist.distributed.autograd.context() as context_id`)"
            )
        context = self._shard(context_id).find(context_id)
        if context is None:
            raise released_inside(context_id)
        return context

    def retrieve_context(self, context_id: int) -> DistAutogradContext:
        """Return the context with an id.

        Raises  ContextError if this worker has no such context
        """
        context = self.find_context(context_id)
        if context is None:
            is_over = context_id in self._shard(context_id).released
            why = "it is over" if is_over else "it is over, or never reached this worker"
            raise ContextError(
                f"{_unknown(context_id)}: {why}; use the id inside of the block of its "
                "`with context() as context_id:`"
            )
        return context

    def find_context(self, context_id: int) -> DistAutogradContext | None:
        """Return the context with an id, or None if this worker has no such context."""
        return self._shard(context_id).find(context_id)

    def is_valid_context(self, context_id: int) -> None:
        """Raise ContextError if this worker has no such context."""
        self.retrieve_context(context_id)

    def release_context(self, context_id: int) -> None:
        """Release a context here, and notify every worker that the context reached.

        Thread  any; does not wait for the peers; each notice is retried up to 20 times
        Raises  ContextError if this worker has no such context
        """
        self.is_valid_context(context_id)
        if not self._release(context_id):
            raise ContextError(_unknown(context_id))

    def end(self, number: int, notified_by: Worker | None = None) -> None:
        """End a context if it exists here; notified_by is the worker whose notice ended it, if
        any.
        """
        self._release(number, notified_by)

    release_context_if_present = end

    def _release(self, context_id: int, notified_by: Worker | None = None) -> bool:
        # After another worker's notice, a message of the context may still be in this worker's
        # queue, so the tombstone is added in any case.
        context = self._shard(context_id).take(context_id, may_come=notified_by is not None)
        if _current.context_id == context_id:
            _current.context_id = INVALID_CONTEXT_ID
        if context is not None:
            self.close(context, notified_by)
        return context is not None

    def close(self, context: DistAutogradContext, notified_by: Worker | None = None) -> None:
        """End the pass of a context; notify all workers that it reached, except notified_by."""
        # Close the context first, so that a pass that begins now is either refused or found below.
        workers = context.close()
        if debug_log.of_autograd:
            ranks = {worker.id for worker in workers}
            debug_log.context(self.worker_id, context.id, "is released; known to %s", ranks)
        part = context.pass_under_way()
        if part is not None:
            which = id_text(context.id)
            part.fail(ContextReleasedError(f"context {which} was released during a backward pass"))
        # Messages are sent here, where no lock is held.
        self.tell_end(workers - {notified_by}, context.id)

    def open_to(self, numbers: Sequence[int], worker: Worker) -> list[int]:
        """Return which of the ids are open here; `worker` will be notified when these end."""
        found = [(number, self.find_context(number)) for number in numbers]
        return [i for i, one in found if one is not None and one.add_known_worker(worker)]

    def held(self) -> dict[Worker, list[int]]:
        """Return the ids of other workers' contexts that exist here, by owner."""
        held: dict[Worker, list[int]] = {}
        for context in self.all_contexts():
            if context.owner is not None:
                held.setdefault(context.owner, []).append(context.id)
        return held

    def number_of_contexts(self) -> int:
        """Return the number of contexts."""
        total = 0
        for shard in self.shards:
            with shard.lock:
                total += len(shard.contexts)
        return total

    def all_contexts(self) -> list[DistAutogradContext]:
        """Return every context of this worker that has been used."""
        found: list[DistAutogradContext] = []
        for shard in self.shards:
            with shard.lock:
                found += filter(None, shard.contexts.values())
        return found

    def number_of_shards(self) -> int:
        """Return the number of shards, each of which has a lock."""
        return len(self.shards)

    def stop(self) -> None:
        """Forget all contexts and ids."""
        # Set to False first, so that a function that still runs after RPC's shutdown adds nothing
        # to the contexts of the next group.
        self.initialized = False
        for shard in self.shards:
            shard.clear()


def _require_alive(brought_by: Worker, owner: Worker | None) -> None:
    if brought_by.is_dead:
        raise WorkerLostError(f"{in_words(brought_by)}, which sent this, was lost")
    if owner is not None and owner.is_dead:
        # Perhaps no worker is left that would notify this worker of the context's end.
        raise _owner_lost(in_words(owner))


def _owner_lost(owner: str) -> WorkerLostError:
    return WorkerLostError(f"{owner}, in whose context this was sent, was lost")


def _unknown(context_id: int) -> str:
    return f"Could not find autograd context with id: {with_decimal(context_id)}"


def released_inside(context_id: int) -> ContextError:
    """Return the error for a thread whose current context has been released."""
    return ContextError(
        "Couldn't find autograd context data for current autograd context id: "
        f"{with_decimal(context_id)} was released while this thread was inside it"
    )


def current_context_id() -> int:
    """Return this thread's context id; -1 outside of any context.

    Example:
        >>> dist_autograd.current_context_id()
        -1
    """
    return _current.context_id


def force_current_context_id(context_id: int) -> None:
    """Make context_id this thread's current context, replacing any other, to handle a request."""
    _current.context_id = context_id


def set_current_context_id(context_id: int) -> None:
    """Make context_id this thread's current context; the thread must not have one."""
    assert _current.context_id == INVALID_CONTEXT_ID, (
        "Already have an autograd context id for this thread."
    )
    _current.context_id = context_id


def clear_current_context_id() -> None:
    """Clear this thread's current context."""
    _current.context_id = INVALID_CONTEXT_ID


_container = DistAutogradContainer()
_container_lock = threading.Lock()


def init(worker_id: int) -> DistAutogradContainer:
    """Allow this worker to open contexts; a second call with the same id does nothing.

    Raises  TypeError if worker_id is not a number; ContextError if it is not in 0..65535, or
            differs from the worker_id of an earlier call
    """
    if type(worker_id) is not int:
        why = f"expected a worker's id, got {type(worker_id).__name__}"
        raise incompatible("_init", "(arg0: int) -> DistAutogradContainer", why, worker_id)
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


# Note [Opening a context]
# Many `with` blocks do little work. So the code that enters and leaves a block is inlined here, and
# a context's data is created on first use. Entering and leaving together take about as long as in
# PyTorch, whose contexts are in C++.


class context:
    """Open a context for this thread, and release it on all workers at the end of the block.

    Raises  ContextError on entering if the thread has a context, or RPC is not initialised

    `with context() as context_id:` gives the id for backward and get_gradients.

    Threads: each thread has its own context

    Example:
        >>> with dist_autograd.context() as context_id:
        ...     dist_autograd.current_context_id() == context_id
        True
    """

    __slots__ = ("_context_id",)

    def __enter__(self) -> int:
        container = _container
        if _current.context_id != INVALID_CONTEXT_ID or not container.initialized:
            try:
                raise _why_none_can_be_opened()
            except ContextError as error:
                fold(error)
                raise
        self._context_id = context_id = next(container.context_ids)
        assert context_id < container.max_id, "the context ids of this worker are used up"
        shard = container.shards[context_id & container.mask]
        with shard.lock:
            shard.contexts[context_id] = None
        _current.context_id = context_id
        if debug_log.of_autograd:
            debug_log.context(container.worker_id, context_id, "begins")
        return context_id

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        context_id = self._context_id
        if _current.context_id == context_id:
            _current.context_id = INVALID_CONTEXT_ID
        # If RPC was shut down inside the block, the context does not exist any more.
        container = _container
        shard = container.shards[context_id & container.mask]
        with shard.lock:
            context = shard.contexts.pop(context_id, None)
            if context is not None:
                shard.released.put(context_id)
        if context is not None:
            container.close(context)
            container.wait_if_notices_are_late()


def _why_none_can_be_opened() -> ContextError:
    get_instance()  # raises if RPC is not initialised
    return ContextError(
        "Already have an autograd context id for this thread. "
        f"Leave the context {id_text(_current.context_id)} first: contexts do not nest"
    )


def stop() -> None:
    """Forget all contexts and ids after RPC's shutdown; the next group starts without them."""
    _container.stop()
