"""How two workers of one machine agree to lend each other memory, and how the lending ends."""

# distributed/arena/__init__.py describes the protocol. The agent sends an offer, as a request, when
# it packs the first large tensor for a peer. While the offer is under way, and if it is refused,
# tensors are sent inside messages.

from __future__ import annotations

import functools
import logging
import os
import struct
import threading

from fastdist.concurrency.future import Future
from fastdist.core.errors import FastdistError, MessageError, RpcTimeoutError
from fastdist.distributed.arena import borrower
from fastdist.distributed.arena.borrower import BorrowedArena
from fastdist.distributed.arena.layout import ArenaError, arena_size, why_not_viable
from fastdist.distributed.arena.lender import Lender, offer_ids
from fastdist.distributed.arena.owner import TRIM_S, Arena
from fastdist.distributed.pipe.host import process_lives
from fastdist.system.foreign_text import one_line

from .agent import RpcAgent
from .gpu_transport.cuda_ipc import close_peer
from .gpu_transport.offers import IpcOffers
from .handlers import Reply, register_handler, unregister_handler
from .message.message import Message
from .message.metadata import Value
from .message.metadata_fields import number
from .message.types import MessageType
from .workers.record import Record
from .workers.worker import Worker

_OFFER_TIMEOUT_S = 30.0
_PROOF_BYTES = 32
# The numbers of an offer: the arena's id, its descriptor in the sender, and its size.
_NUMBERS = ("arena", "fd", "size")

_logger = logging.getLogger(__name__)


class ArenaOffers:
    """This worker's arena, the arenas that other workers offered, and a Lender for each peer.

    Thread  any
    """

    def __init__(self, agent: RpcAgent, *, is_wanted: bool, by_ipc: bool) -> None:
        self._agent = agent
        self._ipc = IpcOffers(agent, self._arena_of, _lives, is_wanted=is_wanted and by_ipc)
        self._me = agent.me
        self._is_wanted = is_wanted
        # Guards the three attributes below.
        self._lock = threading.RLock()
        self._arena: Arena | None = None
        self._is_closed = False
        self._borrowed: dict[Worker, tuple[int, BorrowedArena]] = {}  # worker -> (id, arena)

    def register(self) -> None:
        """Accept offers from now on."""
        register_handler(MessageType.ARENA_OFFER_REQ, self._offer_came)
        self._ipc.register()

    def lender_to(self, worker: Worker) -> Lender | None:
        """Return the Lender for a worker; None for this worker or a worker on another machine."""
        if not self._is_wanted or worker.is_self or not self._shares_processes_with(worker):
            return None
        lender = Lender(lambda lender: self._offer_soon(lender, worker))
        lender.devices = self._ipc.lenders_to(worker, lender)
        return lender

    def peer_lost(self, peer: Worker) -> None:
        """Take back the memory lent to a lost peer, and release what was borrowed from it."""
        arena = None if peer.lender is None else peer.lender.close()
        if arena is not None and peer.lender is not None:
            self._end_in_time(arena, peer.lender, peer.record)
        self._give_back(peer)

    def _give_back(self, owner: Worker) -> None:
        """Stop borrowing from a lost worker."""
        is_gone = not _lives(owner.record)
        with self._lock:
            found = self._borrowed.pop(owner, None)
        if found is not None:
            _close(found[0])
            found[1].owner_was_lost(is_gone=is_gone)

    def close(self) -> None:
        """Stop lending and borrowing; borrowed memory stays mapped while objects use it."""
        unregister_handler(MessageType.ARENA_OFFER_REQ)
        self._ipc.close()
        with self._lock:
            self._is_closed = True
            arena, self._arena = self._arena, None
            borrowed, self._borrowed = self._borrowed, {}
        for arena_id, _ in borrowed.values():
            _close(arena_id)
        if arena is not None:
            arena.close()

    def get_debug_info(self) -> dict[str, str]:
        """Return the amount of lent memory, and the channel of large tensors to each peer."""
        with self._lock:
            arena = self._arena
        why_none = why_not_viable() or "not among the channels"
        info = {"agent.arena": "none yet" if self._is_wanted else f"none: {why_none}"}
        if arena is not None:
            num_blocks, lent_bytes, bytes_there = arena.usage()
            info["agent.arena"] = (
                f"{num_blocks} blocks of {lent_bytes} bytes lent, {bytes_there} bytes there"
            )
        for peer in self._agent.workers.met():
            if peer.lender is not None:
                info[f"agent.arena.{peer.info.name}"] = peer.lender.describe()
            elif not peer.is_self and self._me.shares_host_with(peer.record):
                why = why_none if not self._is_wanted else "other process ids"
                info[f"agent.arena.{peer.info.name}"] = f"large tensors in messages ({why})"
        info.update(self._ipc.get_debug_info())
        return info

    def _arena_of(self, owner: Worker) -> int | None:
        with self._lock:
            found = self._borrowed.get(owner)
            return None if found is None else found[0]

    def _shares_processes_with(self, worker: Worker) -> bool:
        return self._me.shares_processes_with(worker.record)

    def _offer_soon(self, lender: Lender, worker: Worker) -> None:
        if not self._agent.submit_uncounted(self._offer, lender, worker):
            lender.refuse("the agent shuts down")

    def _offer(self, lender: Lender, worker: Worker) -> None:
        proof, offer_id = os.urandom(_PROOF_BYTES), next(offer_ids)
        try:
            arena = self._get_or_create_arena()
            block = arena.lend(proof, lender, offer_id)
            if block is None:
                raise ArenaError("the arena is full")
            metadata: dict[str, Value] = {
                "arena": arena.id,
                "fd": arena.fd,
                "size": arena.size,
                "block": block,
            }
            kind = MessageType.ARENA_OFFER_REQ
            answered = self._agent.send(worker, kind, (), metadata, _OFFER_TIMEOUT_S)
        except (ArenaError, FastdistError) as error:
            lender.refuse(str(error))
            return

        def look(done: Future[Reply]) -> None:
            arena.end(offer_id)
            self._answered(lender, arena, proof, done)

        answered.add_done_callback(look)

    def _answered(self, lender: Lender, arena: Arena, proof: bytes, done: Future[Reply]) -> None:
        error = done.exception()
        if isinstance(error, RpcTimeoutError):
            lender.offer_again()
        elif error is not None:
            lender.refuse(one_line(error))
        elif done.value().metadata.get("proof") == proof:
            lender.open(arena)
        else:
            lender.refuse(one_line(done.value().metadata.get("refused")))

    def _offer_came(self, request: Message) -> Reply:
        metadata, worker = request.metadata, request.peer
        try:
            arena_id, fd, size = (number(metadata, name, worker.id) for name in _NUMBERS)
            proof = self._try(worker, arena_id, fd, size, metadata.get("block"))
        except (ArenaError, MessageError, LookupError, TypeError, struct.error) as error:
            _logger.info("memory of worker %r is not shared: %s", worker.name, one_line(error))
            return Reply([], {"refused": f"{self._me.name!r} says: {error}"})
        return Reply([], {"proof": proof})

    def _try(self, worker: Worker, arena_id: int, fd: int, size: int, block: Value | None) -> bytes:
        """Open the arena of an offer, and return the bytes in the offer's block as a proof."""
        if not self._is_wanted:
            raise ArenaError("it is configured to use other channels")
        if not self._shares_processes_with(worker):
            raise ArenaError("it does not share process ids with the sender")
        if not isinstance(block, bytes):
            raise ArenaError(f"this is not a block of an offer: {block!r}")
        self._require_new(worker, arena_id)
        arena = borrower.open_borrowed(worker.record.pid, fd, size, arena_id, worker)
        with self._lock:
            if self._is_closed:
                borrower.close_borrowed(arena_id)
            else:
                found = self._borrowed.get(worker)
                self._borrowed[worker] = arena_id, arena
                if found is not None and found[0] != arena_id:
                    _close(found[0])
        proof = bytes(arena.take(block, _PROOF_BYTES))
        # Check after the arena is in _borrowed: if the worker is lost later, peer_lost() gives the
        # memory back.
        if worker.is_dead:
            self._give_back(worker)
        return proof

    def _require_new(self, worker: Worker, arena_id: int) -> None:
        """Raise ArenaError if another worker's arena has this id."""
        with self._lock:
            for other, (known_id, _) in self._borrowed.items():
                if other is not worker and known_id == arena_id:
                    raise ArenaError(f"arena {arena_id:#x} is another worker's")

    def _get_or_create_arena(self) -> Arena:
        with self._lock:
            if self._is_closed:
                raise ArenaError("the agent shuts down")
            if self._arena is None:
                self._arena = Arena(arena_size(), self._agent.workers.call_after)
            return self._arena

    def _end_in_time(self, arena: Arena, lender: Lender, record: Record) -> None:
        # A lost peer whose process lives may still read blocks that it has taken: try again later.
        holds_some = True
        try:
            holds_some = arena.end_all(lender, is_gone=not _lives(record))
        finally:
            if holds_some:
                again = functools.partial(self._end_in_time, arena, lender, record)
                self._agent.workers.call_after(TRIM_S, again)


def _close(arena_id: int) -> None:
    """Stop borrowing from an arena's owner."""
    close_peer(arena_id)
    borrower.close_borrowed(arena_id)


def _lives(record: Record) -> bool:
    return process_lives(record.pid, record.process_start)
