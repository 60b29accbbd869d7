"""Forward mode across workers: tangents travel with tensors, and levels end everywhere."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections import deque
from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from ...core.errors import GraphError
from ...core.future import Future
from ...dispatch.tangents import levels_of, set_tangent, tangent_of
from ...graph.forward_grad import ForwardADLevel, adopt
from ...graph.modes import modes
from ...tensor.tensor import Tensor
from ..pipe.message import TangentEntry
from ..rpc.agent import first_number, get_current_agent, is_current_agent_set
from ..rpc.interceptors import Envelope
from ..rpc.message_types import MessageType
from ..rpc.words import number, numbers
from .cleaner import NUM_CLEANUP_CONTEXT_RETRIES
from .container import AUTO_INCREMENT_BITS, TOMBSTONE_S, get_instance

if TYPE_CHECKING:
    from ..rpc.membership import WorkerInfo

_logger = logging.getLogger(__name__)

# Note [Levels on other workers]
# A level has an index where it was opened, and gets a global id, (worker id << 48) + counter, when
# it first travels. Other workers hold a mirror of it. A message names the levels it speaks of
# together with all that are outside of them, outermost first: mirrors are made in that order, and
# so stand to each other as the levels do (graph/forward_grad.py, Note [Levels and their order]).
# Whoever sends a level to a worker remembers that, and at the level's end says so to all whom it
# told; they do likewise. A worker that hears nothing, because its owner died, is told of that by
# its own agent. What arrives after the end is dropped: a level that is over has no tangents.

# Names in a message's metadata: the levels it speaks of; the sender's innermost one.
_LEVELS = "tangents.levels"
_CURRENT = "tangents.current"


class TangentStore:
    """The levels of this process that other workers know, and those of others that it mirrors.

    Thread  any; `_lock` guards all below it. No message is sent and no level ends while it is held
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counter = itertools.count()
        # By global id: whom we told, and which levels are outside of a mirror, outermost first.
        self._told: dict[int, set[int]] = {}
        self._outer: dict[int, tuple[int, ...]] = {}
        self._ended: set[int] = set()
        self._ended_until: deque[tuple[float, int]] = deque()

    def next_id(self) -> int:
        """Return a global id that no other level has."""
        own = first_number() + next(self._counter)
        return get_instance().worker_id << AUTO_INCREMENT_BITS | own

    def chain_of(self, level: ForwardADLevel) -> tuple[int, ...]:
        """Return the global ids of the levels around level, outermost first, and its own."""
        if level.is_mirror:
            assert level.global_id is not None
            with self._lock:
                return (*self._outer.get(level.global_id, ()), level.global_id)
        assert level.idx is not None
        found: list[int] = []
        around = ForwardADLevel.current()
        if around is not None and around.is_mirror and around < level:
            found.extend(self.chain_of(around))
        for idx in range(level.idx + 1):
            outer = ForwardADLevel.try_get_by_idx(idx)
            if outer is not None:
                found.append(outer.get_or_assign_global_id(self.next_id))
        return tuple(found)

    def tell(self, global_ids: Iterable[int], worker_id: int) -> tuple[int, ...]:
        """Remember that a worker hears of levels, and return them, without those that are over.

        Whoever heard of one after its end would mirror it for ever.
        """
        with self._lock:
            alive = tuple([i for i in global_ids if i not in self._ended])
            for global_id in alive:
                self._told.setdefault(global_id, set()).add(worker_id)
        return alive

    def register(self, chain: tuple[int, ...]) -> None:
        """Make mirrors of levels that a message names, outermost first, where they are not here."""
        own = get_instance().worker_id
        for position, global_id in enumerate(chain):
            with self._lock:
                owner = global_id >> AUTO_INCREMENT_BITS
                # Whether the owner is lost is asked under the lock, too: who is lost later has its
                # levels ended later.
                if global_id in self._ended or owner == own or _is_lost(owner):
                    continue
                self._outer.setdefault(global_id, chain[:position])
                # Under the lock, so that an end that is heard now finds the mirror.
                ForwardADLevel.get_or_create_mirror(global_id)

    def end(self, global_id: int) -> None:
        """End a level here if it is a mirror, and tell all whom we told of it."""
        now = time.monotonic()
        with self._lock:
            told = self._told.pop(global_id, set())
            self._outer.pop(global_id, None)
            while self._ended_until and self._ended_until[0][0] < now:
                self._ended.discard(self._ended_until.popleft()[1])
            if global_id not in self._ended:
                self._ended.add(global_id)
                self._ended_until.append((now + TOMBSTONE_S, global_id))
        ForwardADLevel.release_mirror(global_id)
        for worker_id in told:
            _ask_to_end(worker_id, global_id)

    def end_levels_of(self, worker_id: int) -> None:
        """End the mirrors of a lost worker's levels."""
        with self._lock:
            lost = [i for i in self._outer if i >> AUTO_INCREMENT_BITS == worker_id]
        for global_id in lost:
            self.end(global_id)
        with self._lock:
            # Who takes its rank gives its ids out anew.
            self._ended = {i for i in self._ended if i >> AUTO_INCREMENT_BITS != worker_id}

    def stop(self) -> None:
        """End all mirrors, when RPC has shut down.

        Levels that are open here lose their ids, which are those of this worker in its group: in
        the next one another worker may give out the same.
        """
        with self._lock:
            mirrors = list(self._outer)
            self._told.clear()
            self._outer.clear()
            self._ended.clear()
            self._ended_until.clear()
        for global_id in mirrors:
            ForwardADLevel.release_mirror(global_id)
        ForwardADLevel.forget_global_ids()

    def number_of_mirrors(self) -> int:
        """Return how many levels of other workers are known here."""
        with self._lock:
            return len(self._outer)


_store = TangentStore()


def tangent_store() -> TangentStore:
    """Return the process's tangent store."""
    return _store


class TangentInterceptor:
    """Lets tensors take their tangents along, and functions see their caller's level."""

    def request_out(self, envelope: Envelope) -> None:
        """Add the tangents of a request's tensors, and the innermost level of its caller."""
        # Nothing is open and nothing is mirrored: nearly always.
        if modes.special:
            _pack(envelope, ForwardADLevel.current())

    def request_in(self, envelope: Envelope) -> AbstractContextManager[None] | None:
        """Give tensors their tangents; the caller's level is current while its function runs."""
        _unpack(envelope)
        if _CURRENT not in envelope.metadata:
            return None
        current = number(envelope.metadata, _CURRENT, envelope.peer)
        return adopt(ForwardADLevel.try_get_by_global_id(current))

    def response_out(self, envelope: Envelope, request: Envelope) -> None:
        """Add the tangents of a response's tensors."""
        if modes.special:
            _pack(envelope, None)

    def response_in(self, envelope: Envelope, request: Envelope) -> None:
        """Give tensors their tangents."""
        _unpack(envelope)


def _pack(envelope: Envelope, current: ForwardADLevel | None) -> None:
    levels: set[ForwardADLevel] = set() if current is None else {current}
    tensors = envelope.tensors
    at = 0
    # The list grows meanwhile: a tangent may have tangents of outer levels.
    while at < len(tensors):
        tensor = tensors[at]
        for level in levels_of((tensor,)):
            tangent = tangent_of(tensor, level)
            if tangent is not None:
                levels.add(level)
                global_id = level.get_or_assign_global_id(_store.next_id)
                envelope.tangents.append(TangentEntry(at, global_id, len(tensors)))
                tensors.append(tangent)
        at += 1
    if not levels:
        return
    chain: dict[int, None] = {}
    for level in sorted(levels):
        chain.update(dict.fromkeys(_store.chain_of(level)))
    envelope.metadata[_LEVELS] = list(_store.tell(chain, envelope.peer))
    if current is not None:
        envelope.metadata[_CURRENT] = current.global_id


def _unpack(envelope: Envelope) -> None:
    if _LEVELS not in envelope.metadata:
        return
    _store.register(numbers(envelope.metadata, _LEVELS, envelope.peer))
    tensors: list[Tensor] = envelope.tensors
    # Last first: a tangent has all its own tangents before it is given to its tensor.
    for at, global_id, tangent in reversed(envelope.tangents):
        level = ForwardADLevel.try_get_by_global_id(global_id)
        if level is None:
            continue
        try:
            set_tangent(tensors[at], tensors[tangent], level)
        except GraphError:
            # Over since it was found, it has no tangents, as if it had been over before.
            if ForwardADLevel.try_get_by_global_id(global_id) is level:
                raise


def _is_lost(worker_id: int) -> bool:
    return is_current_agent_set() and get_current_agent().is_dead(worker_id)


def _ask_to_end(worker_id: int, global_id: int) -> None:
    if not is_current_agent_set():
        return

    def look(done: Future[Any]) -> None:
        error = done.exception()
        if error is not None:
            _logger.info("level %d was not ended on node %d: %s", global_id, worker_id, error)

    try:
        future = get_current_agent().send(
            worker_id,
            MessageType.CLEANUP_LEVEL_REQ,
            (),
            {"level": global_id},
            retries=NUM_CLEANUP_CONTEXT_RETRIES,
        )
    except Exception as error:  # one dead worker must not keep the others from hearing of it
        _logger.info("level %d was not ended on node %d: %s", global_id, worker_id, error)
        return
    future.add_done_callback(look)


def handle_level_end(envelope: Envelope) -> None:
    """End the mirror of a level that its owner has left."""
    global_id = number(envelope.metadata, "level", envelope.peer)
    if not _is_known_to_be_over(global_id):
        _store.end(global_id)


def _is_known_to_be_over(global_id: int) -> bool:
    # Word of an end comes from everybody who told us of the level; the first one is enough.
    return global_id in _store._ended


def handle_lost_owner(worker: WorkerInfo) -> None:
    """End the levels of a lost worker."""
    _store.end_levels_of(worker.id)
