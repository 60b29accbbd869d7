"""The other workers of an agent: met when they are needed, admitted when they call, given up."""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from fastdist.core.errors import GivenUpError, RpcNotRunningError
from fastdist.distributed.pipe.context import Context
from fastdist.distributed.pipe.credit import Credit
from fastdist.distributed.sockets.patience import FROZEN_S, GRACE_S

from .agent import lost_hooks, tell_silence
from .membership import Membership, Record, WorkerInfo
from .message_types import MessageType
from .outgoing import fresh
from .peer import Peer
from .peer_state import Patience
from .serving import Server, stale_error
from .standing import Standing

if TYPE_CHECKING:
    from fastdist.core.thread_pool import ThreadPool

    from .arena_offers import ArenaOffers
    from .client import Client

_logger = logging.getLogger(__name__)

# What a worker held is let go of on pool threads, in a moment; its end may run what users wrote,
# and who has come in its place does not wait for that any longer.
_TOLD_WITHIN_S = 1.0


class Peers:
    """A Peer for each worker that this one speaks with, itself among them.

    Thread  any, after `attend`; `admit`, `has_left` and `has_parted` are for the pool's leader
    """

    def __init__(
        self,
        members: Membership,
        context: Context,
        frozen_s: float = FROZEN_S,
        grace_s: float | None = None,
    ) -> None:
        self._members = members
        self._frozen_s, self._grace_s = frozen_s, grace_s
        self._me = members.me
        self._context = context
        # Guards the four below it. Peers are looked up without it: entries appear, and go where
        # another worker has taken the rank, or no lane could be made.
        self._lock = threading.Lock()
        self.by_id: dict[int, Peer] = {}
        self.is_open = False
        # Why this worker is none of the group any more: the others gave it up.
        self.given_up: GivenUpError | None = None
        self._standing = Standing()
        self._lost_callbacks: list[Callable[[WorkerInfo], None]] = []
        # Who has answered our goodbye, by incarnation; notified of each, and of each peer's end.
        self._parting = threading.Condition()
        self._parted: set[int] = set()

    def attend(self, client: Client, pool: ThreadPool, server: Server, arenas: ArenaOffers) -> None:
        """Say who deals with what peers send, and with their end."""
        self._client, self._pool, self._server, self._arenas = client, pool, server, arenas

    def close(self) -> bool:
        """Meet nobody any more; return whether that is new."""
        with self._lock:
            was_open, self.is_open = self.is_open, False
            return was_open

    def require_member(self) -> None:
        """Check that this worker is one of the group.

        Raises  GivenUpError once the others have given it up
        """
        if self.given_up is not None:
            raise fresh(self.given_up)

    def part(self, timeout_s: float) -> None:
        """Tell all peers that this worker leaves, and wait until they have read what it sent.

        Note    who closes a connection earlier loses answers: libzmq throws away what came just
                before the end of one that a peer made, unless a thread was there to take it
        """
        peers = [peer for peer in list(self.by_id.values()) if not peer.is_self]
        for peer in peers:
            peer.say_goodbye()
        with self._parting:
            self._parting.wait_for(
                lambda: all(
                    peer.is_dead or peer.record.incarnation in self._parted for peer in peers
                ),
                timeout_s,
            )

    def has_parted(self, incarnation: int) -> None:
        """Take note of a peer that has read all that this worker, which leaves, has sent."""
        with self._parting:
            self._parted.add(incarnation)
            self._parting.notify_all()

    def add_lost_callback(self, callback: Callable[[WorkerInfo], None]) -> None:
        """Call callback(worker), on a pool thread, for each worker that is lost or leaves."""
        with self._lock:
            self._lost_callbacks.append(callback)

    def peer(self, worker_id: int, kind: MessageType = MessageType.HELLO) -> Peer:
        """Return a worker to send a message of a kind to, connected now if it was not.

        Raises  RpcNotRunningError after shutdown; GivenUpError; RpcError for an unknown id
        """
        peer = self.by_id.get(worker_id)
        if peer is not None and self.is_open and not self._is_replaced(peer):
            return peer
        record = self._members.get(worker_id)
        before = self.by_id.get(worker_id)
        if before is not None and before.record.incarnation != record.incarnation:
            self._end(before)
        with self._lock:
            self.require_member()
            if not self.is_open:
                raise RpcNotRunningError(
                    f"Node {self._me.rank} tried to send() a message of type {kind.name} but RPC "
                    f"is no longer running on this node. It was for worker {record.name!r}"
                )
            before = self.by_id.get(worker_id)
            if before is not None and before.record.incarnation == record.incarnation:
                return before
            peer = self.by_id[worker_id] = self._make(record)
        try:
            peer.open()
        except Exception as error:
            # Nobody would read what it answers. The next who wants it meets it anew; who has found
            # it meanwhile hears why not.
            with self._lock:
                if self.by_id.get(worker_id) is peer:
                    del self.by_id[worker_id]
            peer.pipe.break_off(error)
            peer.pipe.close()
            raise
        return peer

    def living(self) -> list[Peer]:
        """Return those that are met, and neither lost nor gone."""
        return [peer for peer in list(self.by_id.values()) if not peer.is_dead]

    def lost(self) -> list[str]:
        """Return the workers that were lost, not those that have left, and how."""
        return [
            f"{peer.info.name!r} (rank {peer.info.id}): {peer.why_lost}"
            for _, peer in sorted(self.by_id.items())
            if peer.why_lost
        ]

    def admit(self, rank: int, incarnation: int, meant_for: str) -> Record:
        """Return the record of a worker that calls.

        Raises  StaleIncarnationError for an earlier life, of the caller or of this worker;
                GivenUpError for a worker that was declared lost, or if this one was; RpcError for
                no member
        """
        if self.given_up is not None and rank != self._me.rank:
            raise self.given_up
        record = self._members.latest(rank, incarnation)
        if record.incarnation != incarnation or meant_for != f"{self._me.incarnation:x}":
            raise stale_error(record.name, rank)
        peer = self.by_id.get(rank)
        if peer is not None and peer.record.incarnation != incarnation:
            self._end(peer)
            with self._lock:
                # Whoever asks from here on, asks about the one that has come.
                if self.by_id.get(rank) is peer:
                    del self.by_id[rank]
            peer = None
        if peer is not None and peer.is_dead:
            raise self._word_for(peer) or stale_error(record.name, rank)
        if peer is None:
            # Who calls us holds things here: we want to know when it dies.
            self._client.progress.post(self._watch, rank)
        return record

    def has_left(self, rank: int, incarnation: int) -> None:
        """Take note of a goodbye."""
        peer = self.by_id.get(rank)
        if peer is not None and peer.record.incarnation == incarnation:
            peer.said_goodbye()

    def _make(self, record: Record) -> Peer:
        limits = self._me.limits
        peer = Peer(
            record,
            self._me,
            self._context,
            self._client.progress,
            Credit(limits.outstanding_bytes, limits.outstanding_calls),
            self._client.answer_came,
            self._client.late_answer_came,
            self._was_lost,
            lambda peer, why: tell_silence(self._pool, peer.info, why),
            self._were_given_up,
            self._patience_with(record),
        )
        peer.lender = self._arenas.lender_to(record)
        return peer

    def _patience_with(self, record: Record) -> Patience:
        grace_s = self._grace_s
        if grace_s is None:
            # Between machines what refuses may be the network: it has as long as silence has.
            grace_s = GRACE_S if self._me.shares_host_with(record) else self._frozen_s
        join_s = max(self._frozen_s, FROZEN_S)
        return Patience(frozen_s=self._frozen_s, grace_s=grace_s, join_s=join_s)

    def _is_replaced(self, peer: Peer) -> bool:
        """Return whether another worker has the rank now, in a dynamic group.

        Note    the end of who had it may be noticed later than the first call of who has it; and
                who was lost may have come back as another of its name
        """
        if self._members.is_static:
            return False
        if peer.is_dead and not peer.is_self:
            self._members.look_again()
        record = self._members.known(peer.info.id)
        return record is not None and record.incarnation != peer.record.incarnation

    def _end(self, replaced: Peer) -> None:
        """Let a worker be over whose rank another has, and all hear of it who act on it.

        They speak of a rank: what the other one brings would be taken for what has ended.
        """
        replaced.was_replaced()
        if not self._client.progress.is_current_thread():
            replaced.all_told.wait(_TOLD_WITHIN_S)

    def _watch(self, rank: int) -> None:
        if self.is_open:
            self.peer(rank)

    def _word_for(self, peer: Peer) -> GivenUpError | None:
        """Return what a peer is told that was lost here and lives; None for one that has left."""
        if not peer.why_lost:
            return None
        return GivenUpError(
            f"worker {peer.info.name!r} (rank {peer.info.id}) was declared lost by worker "
            f"{self._me.name!r} (rank {self._me.rank}): {peer.why_lost}; it cannot come back: end "
            "this process, and start it again",
            incarnation=peer.record.incarnation,
        )

    def _were_given_up(self, by: Peer, error: GivenUpError) -> None:
        """Take note that a peer has given up this worker, and fence it if it is out."""
        there = [peer for peer in self.living() if not (peer.is_self or peer is by)]
        stood_still = self._client.progress.stood_still_lately()
        if self.given_up is None and self._standing.was_given_up(
            by.record.incarnation, num_there=len(there), stood_still=stood_still
        ):
            self._fence(GivenUpError(*error.args, incarnation=self._me.incarnation))

    def _fence(self, error: GivenUpError) -> None:
        """Let nothing of this worker act on the others any more, nor of them on it.

        All its waits end with the error, and what begins later fails with it at once. Also members
        that have not given it up hear of it: what is between it and them ends as well.
        """
        _logger.error("%s", error)
        with self._lock:
            # Nobody is met from here on, and nobody admitted.
            self.given_up = error
            peers = list(self.by_id.values())
        self._server.fence(error)
        for peer in peers:
            peer.fence(error)

    def _was_lost(self, peer: Peer) -> None:
        if peer.is_self:
            return
        with self._parting:
            self._parting.notify_all()
        self._server.forget(peer.record, self._word_for(peer))
        self._members.forget(peer.info.id, peer.record.incarnation)
        self._pool.submit_uncounted(self._arenas.peer_lost, peer)
        with self._lock:
            callbacks = [*lost_hooks, *self._lost_callbacks]
        ended = itertools.count(1)

        def tell(callback: Callable[[WorkerInfo], None]) -> None:
            try:
                callback(peer.info)
            finally:
                if next(ended) == len(callbacks):
                    peer.all_told.set()

        told = [self._pool.submit_uncounted(tell, callback) for callback in callbacks]
        if not told or not all(told):
            peer.all_told.set()  # there is nobody, or RPC ends here
