"""Forward mode across workers: tangents travel with tensors, and levels end everywhere."""

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
# A level has an index where it was opened, and gets a global id, (worker id << 48) + counter, when
# it first travels. Other workers hold a mirror of it. A message names its levels together with all
# that are outside of them, outermost first: mirrors are made in that order, and so have the same
# order as the levels (graph/forward_grad.py, Note [Levels and their order]). A worker remembers to
# which workers it sent a level, and notifies them of the level's end; they do likewise
# (endings.py). A message that arrives after the end is dropped: a level that is over has no
# tangents.

# Names in a message's metadata: the levels it speaks of; the sender's innermost one.
_LEVELS = "tangents.levels"
_CURRENT = "tangents.current"
# For each of the levels the incarnation of its owner, where the owner is neither the sender nor the
# reader, else 0; left out where all are 0. An id has only the owner's rank.
_OWNERS = "tangents.owners"


class TangentStore(EndsEverywhere):
    """The levels of this process that other workers know, and those of others that it mirrors.

    Thread  any; `_lock` guards all below it. No message is sent and no level ends while it is held
    """

    what, ids, failure = "level", "levels", "Could not end a level of forward mode"

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counter = itertools.count()
        # By global id: the workers that were notified; for a mirror the owner of its level, and the
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
        """Return the global ids of the levels around level, outermost first, and its own."""
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
        """Remember that a worker will get levels, and return them, without those that are over.

        A worker that gets one after its end would mirror it forever.
        """
        with self._lock:
            alive = tuple([i for i in global_ids if i not in self._ended])
            for global_id in alive:
                self._notified.setdefault(global_id, set()).add(worker)
        return alive

    def lives(self, global_ids: Iterable[int], worker: Worker) -> list[Value]:
        """Return the incarnations of the owners of levels; 0 of this worker's and of worker's."""
        with self._lock:
            owners = [self._owner.get(global_id) for global_id in global_ids]
        return [
            0 if owner is None or owner is worker else owner.record.incarnation for owner in owners
        ]

    def register(
        self, chain: tuple[int, ...], brought_by: Worker, lives: Sequence[int] = ()
    ) -> None:
        """Make mirrors of levels that a message names, outermost first, where they are not here.

        `lives` has the incarnation of each one's owner, as `lives()` tells them; () for all 0.
        """
        for position, global_id in enumerate(chain):
            owner = self._owner.get(global_id)
            if owner is None:
                owner = _owner_of(global_id, brought_by, lives[position] if lives else 0)
            with self._lock:
                # The loss is checked under the lock, too: for a worker that is lost later, the ends
                # of its levels follow later, and the owners of levels that it brought are queried.
                is_lost = owner is None or owner.is_dead or brought_by.is_dead
                if owner is None or is_lost or global_id in self._ended:
                    continue
                self._owner[global_id] = owner
                self._outer.setdefault(global_id, chain[:position])
                # Under the lock, so that a notice of the end that arrives now finds the mirror.
                ForwardADLevel.get_or_create_mirror(global_id)

    def end(self, number: int, notified_by: Worker | None = None) -> None:
        """End a level here if it is a mirror, and notify all that we sent it to, except
        notified_by.
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
        """End all mirrors, when RPC has shut down.

        Levels that are open here lose their ids, which are those of this worker in its group: in
        the next one another worker may give out the same.
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
        """Return which levels are open here; the worker will be notified when they end."""
        is_open = ForwardADLevel.try_get_by_global_id
        return self.tell([i for i in numbers if is_open(i) is not None], worker)

    def held(self) -> dict[Worker, list[int]]:
        """Return the levels of other workers that are known here."""
        found: dict[Worker, list[int]] = {}
        with self._lock:
            for global_id, owner in self._owner.items():
                found.setdefault(owner, []).append(global_id)
        return found

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

    def request_out(self, request: Message) -> None:
        """Add the tangents of a request's tensors, and the innermost level of its caller."""
        # Nothing is open and nothing is mirrored: nearly always.
        if modes.special:
            _pack(request, ForwardADLevel.current())

    def request_in(self, request: Message) -> AbstractContextManager[None] | None:
        """Give tensors their tangents; the caller's level is current while its function runs."""
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
        """Give tensors their tangents."""
        if _LEVELS in answer.metadata:
            _unpack(answer)


def _pack(message: Message, current: ForwardADLevel | None) -> None:
    levels: set[ForwardADLevel] = set() if current is None else {current}
    tensors, tangents = message.tensors, list[TangentEntry]()
    at = 0
    # The list grows meanwhile: a tangent may have tangents of outer levels.
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
    # Last first: a tangent has all its own tangents before it is given to its tensor.
    for at, global_id, tangent in reversed(message.tangents):
        level = ForwardADLevel.try_get_by_global_id(global_id)
        if level is None:
            continue
        try:
            set_tangent(tensors[at], tensors[tangent], level)
        except GraphError:
            # Over since it was found, it has no tangents, as if it had been over before.
            if ForwardADLevel.try_get_by_global_id(global_id) is level:
                raise


def _owner_of(global_id: int, brought_by: Worker, life: int) -> Worker | None:
    """Return whose level another worker has brought; None for ours, and for no present life."""
    rank = global_id >> AUTO_INCREMENT_BITS
    if not life:
        return brought_by if rank == brought_by.id and not brought_by.is_self else None
    owner = get_current_agent().workers.find_life(rank, life)
    return None if owner is None or owner.is_self else owner
