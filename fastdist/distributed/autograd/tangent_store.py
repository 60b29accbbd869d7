"""Forward mode across workers: sends tangents with tensors, and ends levels on all workers."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from ...core.errors import GraphError
from ...graph.forward_grad import ForwardADLevel, adopt
from ...graph.modes import modes
from ...graph.tensor_tangents import levels_of, set_tangent, tangent_of
from ...tensor.tensor import Tensor
from ..rpc.agent import get_current_agent, id_offset
from ..rpc.message.layout import TangentEntry
from ..rpc.message.message import Message
from ..rpc.message.metadata_fields import number, numbers, refuse
from .container import get_instance
from .endings import EndsEverywhere
from .shard import AUTO_INCREMENT_BITS, Tombstones

if TYPE_CHECKING:
    from ..rpc.message.metadata import Value
    from ..rpc.workers.worker import Worker

# Note [Levels on other workers]
# A level has an index in the process that opened it. It gets a global id, (worker id << 48) +
# counter, when a message names it for the first time. Each other worker that knows the level has a
# mirror of it. A message names the levels of its tangents together with all levels outside of them,
# outermost first. Mirrors are created in that order, and so have the same order as the levels
# (graph/forward_grad.py, Note [Levels and their order]). A worker stores to which workers it sent a
# level, and notifies them of the level's end; they notify further workers in the same way
# (endings.py). Tangents that arrive after the end of their level are dropped.

# Fields of a message's metadata: the levels of its tangents, and the sender's innermost level.
_LEVELS = "tangents.levels"
_CURRENT = "tangents.current"
# The field with the incarnation of each level's owner, because a level's id contains only the
# owner's rank. The number is 0 if the owner is the sender or the receiver. If all numbers are 0, a
# message does not have this field.
_OWNERS = "tangents.owners"


class TangentStore(EndsEverywhere):
    """The levels of this process that other workers know, and its mirrors of other workers' levels.

    Thread  any; `_lock` guards the fields below it. No message is sent and no level is ended while
            the lock is held
    """

    what, ids, failure = "level", "levels", "Could not end a level of forward mode"

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counter = itertools.count()
        # The keys of these dicts are global ids. `_notified` has the workers to which a level was
        # sent. `_owner` and `_outer` have only mirrors: the owner of the mirror's level, and the
        # levels outside of it, outermost first.
        self._notified: dict[int, set[Worker]] = {}
        self._owner: dict[int, Worker] = {}
        self._outer: dict[int, tuple[int, ...]] = {}
        self._ended = Tombstones()

    def next_id(self) -> int:
        """Return a global id that no other level has."""
        own = id_offset() + next(self._counter)
        return get_instance().worker_id << AUTO_INCREMENT_BITS | own

    def chain_of(self, level: ForwardADLevel) -> tuple[int, ...]:
        """Return the global ids of the levels outside of `level`, outermost first, and then that of
        `level` itself.
        """
        if level.is_mirror:
            assert level.global_id is not None
            with self._lock:
                return (*self._outer.get(level.global_id, ()), level.global_id)
        assert level.idx is not None
        found: dict[int, None] = {}
        for idx in range(level.idx + 1):
            outer = ForwardADLevel.try_get_by_idx(idx)
            if outer is not None:
                if outer.around is not None and outer.around.is_mirror:
                    found.update(dict.fromkeys(self.chain_of(outer.around)))
                found[outer.get_or_assign_global_id(self.next_id)] = None
        return tuple(found)

    def tell(self, global_ids: Iterable[int], worker: Worker) -> tuple[int, ...]:
        """Record that levels will be sent to a worker; return the ids of those that have not ended.

        Only these may be sent: a worker that received an ended level would mirror it forever.
        """
        with self._lock:
            alive = tuple([i for i in global_ids if i not in self._ended])
            for global_id in alive:
                self._notified.setdefault(global_id, set()).add(worker)
        return alive

    def lives(self, global_ids: Iterable[int], worker: Worker) -> list[Value]:
        """Return the incarnation of each level's owner; 0 if that is this worker or `worker`."""
        with self._lock:
            owners = [self._owner.get(global_id) for global_id in global_ids]
        return [
            0 if owner is None or owner is worker else owner.record.incarnation for owner in owners
        ]

    def register(
        self, chain: tuple[int, ...], brought_by: Worker, lives: Sequence[int] = ()
    ) -> None:
        """Create the mirrors that are missing for the levels of a message, outermost first.

        `lives` has the incarnation of each level's owner, as `lives()` returns it. It is () if all
        are 0.
        """
        for position, global_id in enumerate(chain):
            owner = self._owner.get(global_id)
            if owner is None:
                owner = _owner_of(global_id, brought_by, lives[position] if lives else 0)
            with self._lock:
                # A loss is checked under the lock too. A worker that is lost later is handled as
                # usual: its levels end, and the owners of the other levels that it sent are queried
                # about their ends.
                is_lost = owner is None or owner.is_dead or brought_by.is_dead
                if owner is None or is_lost or global_id in self._ended:
                    continue
                self._owner[global_id] = owner
                self._outer.setdefault(global_id, chain[:position])
                # Created under the lock, so that a notice of the level's end that arrives now
                # finds the mirror.
                ForwardADLevel.get_or_create_mirror(global_id)

    def end(self, number: int, notified_by: Worker | None = None) -> None:
        """End a level: release its mirror, if this worker has one, and notify all workers to which
        this worker sent the level, except `notified_by`.
        """
        with self._lock:
            told = self._notified.pop(number, set())
            self._outer.pop(number, None)
            self._owner.pop(number, None)
            if number not in self._ended:
                self._ended.put(number)
        ForwardADLevel.release_mirror(number)
        self.tell_end(told - {notified_by}, number)

    def stop(self) -> None:
        """End all mirrors after RPC's shutdown.

        Levels that were opened here lose their global ids. These contain this worker's id in the
        current group. In the next group another worker may have this id and generate the same
        global ids.
        """
        with self._lock:
            mirrors = list(self._outer)
            self._notified.clear()
            self._outer.clear()
            self._owner.clear()
            self._ended.clear()
        for global_id in mirrors:
            ForwardADLevel.release_mirror(global_id)
        ForwardADLevel.forget_global_ids()

    def open_to(self, numbers: Sequence[int], worker: Worker) -> tuple[int, ...]:
        """Return the ids whose levels are open here; notify the worker when they end."""
        is_open = ForwardADLevel.try_get_by_global_id
        return self.tell([i for i in numbers if is_open(i) is not None], worker)

    def held(self) -> dict[Worker, list[int]]:
        """Return the ids of other workers' levels that have a mirror here, by owner."""
        found: dict[Worker, list[int]] = {}
        with self._lock:
            for global_id, owner in self._owner.items():
                found.setdefault(owner, []).append(global_id)
        return found

    def number_of_mirrors(self) -> int:
        """Return the number of mirrors."""
        with self._lock:
            return len(self._outer)


_store = TangentStore()


def tangent_store() -> TangentStore:
    """Return the process's tangent store."""
    return _store


class TangentInterceptor:
    """Sends tensors together with their tangents, and runs a function at its caller's level."""

    def request_out(self, request: Message) -> None:
        """Add the tangents of a request's tensors, and the caller's innermost level."""
        # In the usual case no level is open or mirrored, and there is nothing to add.
        if modes.special:
            _pack(request, ForwardADLevel.current())

    def request_in(self, request: Message) -> AbstractContextManager[None] | None:
        """Attach the tangents to the tensors; the function runs with the caller's level as
        current.
        """
        metadata = request.metadata
        if _LEVELS in metadata:
            _unpack(request)
        if _CURRENT not in metadata:
            return None
        current = number(request.metadata, _CURRENT, request.peer.id)
        return adopt(ForwardADLevel.try_get_by_global_id(current))

    def response_out(self, answer: Message, request: Message) -> None:
        """Add the tangents of a response's tensors."""
        if modes.special:
            _pack(answer, None)

    def response_in(self, answer: Message, request: Message) -> None:
        """Attach the tangents to the tensors."""
        if _LEVELS in answer.metadata:
            _unpack(answer)


def _pack(message: Message, current: ForwardADLevel | None) -> None:
    levels: set[ForwardADLevel] = set() if current is None else {current}
    tensors, tangents = message.tensors, list[TangentEntry]()
    at = 0
    # The list grows during the loop: a tangent may have tangents of outer levels.
    while at < len(tensors):
        tensor = tensors[at]
        for level in levels_of((tensor,)):
            tangent = tangent_of(tensor, level)
            if tangent is not None:
                levels.add(level)
                global_id = level.get_or_assign_global_id(_store.next_id)
                tangents.append(TangentEntry(at, global_id, len(tensors)))
                tensors.append(tangent)
        at += 1
    if not levels:
        return
    message.tangents = tangents
    chain: dict[int, None] = {}
    for level in sorted(levels):
        chain.update(dict.fromkeys(_store.chain_of(level)))
    told = _store.tell(chain, message.peer)
    message.metadata[_LEVELS] = list(told)
    lives = _store.lives(told, message.peer)
    if any(lives):
        message.metadata[_OWNERS] = lives
    if current is not None:
        message.metadata[_CURRENT] = current.global_id


def _unpack(message: Message) -> None:
    metadata, sender = message.metadata, message.peer
    chain = numbers(metadata, _LEVELS, sender.id)
    lives = numbers(metadata, _OWNERS, sender.id) if _OWNERS in metadata else ()
    if lives and len(lives) != len(chain):
        refuse(metadata, _OWNERS, sender.id, f"{len(chain)} numbers, one for each level")
    _store.register(chain, sender, lives)
    tensors: list[Tensor] = message.tensors
    # In reverse order: a tangent gets its own tangents before it is attached to its tensor.
    for at, global_id, tangent in reversed(message.tangents):
        level = ForwardADLevel.try_get_by_global_id(global_id)
        if level is None:
            continue
        try:
            set_tangent(tensors[at], tensors[tangent], level)
        except GraphError:
            # If the level has ended since the look-up, its tangent is dropped, as above.
            if ForwardADLevel.try_get_by_global_id(global_id) is level:
                raise


def _owner_of(global_id: int, brought_by: Worker, life: int) -> Worker | None:
    """Return the owner of a level that another worker sent; None if the owner is this worker or a
    past incarnation.
    """
    rank = global_id >> AUTO_INCREMENT_BITS
    if not life:
        return brought_by if rank == brought_by.id and not brought_by.is_self else None
    owner = get_current_agent().workers.find_life(rank, life)
    return None if owner is None or owner.is_self else owner
