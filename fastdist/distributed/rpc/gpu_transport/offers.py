"""Offers: two workers of one machine agree to send tensors from GPU to GPU, or learn why not."""

# See cuda_ipc.py. For each pair of a GPU of this worker and a GPU of a peer, the agent sends an
# offer, which is a request, when the first tensor must be sent between the two. The peer must have
# accepted the arena before that, since the arena's table tracks which peer has a piece.

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from fastdist.concurrency.future import Future
from fastdist.core.errors import FastdistError, MessageError, RpcTimeoutError
from fastdist.devices.backend import backend_of
from fastdist.distributed.arena.layout import ARENA_BLOCK, why_not_viable
from fastdist.distributed.arena.lender import Lender, offer_ids
from fastdist.system.foreign_text import one_line

from ..debug_log import debug_log
from ..handlers import Reply, register_handler, unregister_handler
from ..message.message import Message
from ..message.metadata import Value
from ..message.metadata_fields import number
from ..message.types import MessageType
from .cuda_ipc import (
    CameOnDevice,
    GpuLender,
    GpuLenders,
    Wanted,
    get_or_create_peer,
    lend_arrays,
    take_piece,
    usage,
)
from .release import SlabRelease

if TYPE_CHECKING:
    from ..agent import RpcAgent
    from ..workers.record import Record
    from ..workers.worker import Worker

OFFER_TIMEOUT_S = 30.0
_PROOF_BYTES = 32


class IpcOffers:
    """Makes offers of this worker's GPU memory to peers, and answers the peers' offers.

    `arena_of(worker)` returns the id of the arena from which a worker lends, or None;
    `lives(record)` returns whether a worker's process exists.

    Thread  any
    """

    def __init__(
        self,
        agent: RpcAgent,
        arena_of: Callable[[Worker], int | None],
        lives: Callable[[Record], bool],
        *,
        is_wanted: bool,
    ) -> None:
        self._agent, self._arena_of = agent, arena_of
        self._is_wanted = is_wanted
        self._release = SlabRelease(agent, arena_of, lives)

    def register(self) -> None:
        """Accept offers from now on."""
        register_handler(MessageType.IPC_OFFER_REQ, self._offer_came)
        self._release.register()

    def close(self) -> None:
        """Accept no more offers."""
        unregister_handler(MessageType.IPC_OFFER_REQ)
        self._release.close()

    def lenders_to(self, worker: Worker, host: Lender) -> GpuLenders | None:
        """Return the lenders of GPU memory to a worker; `host` lends the arena to that worker."""
        if not self._is_wanted:
            return None
        made = GpuLenders(host, lambda pair: self._offer_soon(pair, host, worker))
        self._release.lends_to(worker, made)
        return made

    def get_debug_info(self) -> dict[str, str]:
        """Return the amount of lent memory, and the channel by which each peer gets GPU tensors."""
        why_none = why_not_viable() or "not among the channels"
        info = {} if self._is_wanted else {"agent.cuda_ipc": f"none: {why_none}"}
        for index, (lent_bytes, bytes_there) in usage().items():
            text = f"{lent_bytes} of {bytes_there} bytes of slabs lent"
            info[f"agent.cuda_ipc.cuda:{index}"] = text
        for peer in self._agent.workers.met():
            devices = None if peer.lender is None else peer.lender.devices
            if devices is not None and (how := devices.describe()):
                info[f"agent.cuda_ipc.{peer.info.name}"] = how
        return info

    def _offer_soon(self, pair: GpuLender, host: Lender, worker: Worker) -> None:
        if not self._agent.submit_uncounted(self._offer, pair, host, worker):
            self._refuse(pair, worker, "the agent shuts down")

    def _offer(self, pair: GpuLender, host: Lender, worker: Worker) -> None:
        arena = host.arena()
        if arena is None:
            if (why := host.why_refused) is None:
                pair.offer_again()  # the arena's own offer is under way: try again later
            else:
                self._refuse(pair, worker, f"the arena is not shared: {why}")
            return
        proof, offer_id = os.urandom(_PROOF_BYTES), next(offer_ids)
        mine, theirs = pair.mine.index or 0, pair.theirs.index or 0
        self._release.listen()
        try:
            array = backend_of("cuda").from_numpy(np.frombuffer(proof, np.uint8), mine)
            lent = lend_arrays(mine, [array], host, offer_id)
            if lent is None:
                self._refuse(pair, worker, f"{pair.mine} has no memory for other processes")
                return
            piece, (start,) = lent
            host.devices.opened.add(piece.slab)
            metadata: dict[str, Value] = {
                "block": piece.descriptor,
                "size": len(piece),
                "start": start,
                "to": theirs,
            }
            kind = MessageType.IPC_OFFER_REQ
            answered = self._agent.send(worker, kind, (), metadata, OFFER_TIMEOUT_S)
        except FastdistError as error:
            host.end(offer_id)
            self._refuse(pair, worker, str(error))
            return

        def look(done: Future[Reply]) -> None:
            host.end(offer_id)
            error = done.exception()
            if isinstance(error, RpcTimeoutError):
                pair.offer_again()
            elif error is not None:
                self._refuse(pair, worker, one_line(error))
            elif done.value().metadata.get("proof") == proof:
                pair.open(arena)
                self._tell(pair, worker)
            else:
                self._refuse(pair, worker, one_line(done.value().metadata.get("refused")))

        answered.add_done_callback(look)

    def _refuse(self, pair: GpuLender, worker: Worker, why: str) -> None:
        pair.refuse(why)
        self._tell(pair, worker)

    def _tell(self, pair: GpuLender, worker: Worker) -> None:
        debug_log.worker(self._agent.me.rank, "rank %d, %s", worker.id, pair.describe())

    def _offer_came(self, request: Message) -> Reply:
        try:
            proof = self._try(request)
        except FastdistError as error:
            return Reply([], {"refused": f"{self._agent.me.name!r} says: {error}"})
        return Reply([], {"proof": proof})

    def _try(self, request: Message) -> bytes:
        """Return the random bytes of an offer, read from its piece through the offered channel."""
        metadata, worker = request.metadata, request.peer
        if not self._is_wanted:
            raise MessageError("it is configured to use other channels")
        arena_id = self._arena_of(worker)
        if arena_id is None:
            raise MessageError("it does not have this worker's arena")
        block = metadata.get("block")
        size, start, to = (number(metadata, name, worker.id) for name in ("size", "start", "to"))
        if not isinstance(block, bytes) or len(block) != ARENA_BLOCK.size:
            raise MessageError(f"this is not a block of an offer: {block!r:.80}")
        if ARENA_BLOCK.unpack(block)[0] != arena_id:
            raise MessageError("a block of another worker's arena")
        if not 0 <= start <= size - _PROOF_BYTES:
            raise MessageError(f"{_PROOF_BYTES} bytes at {start} of {size}")
        backend: Any = backend_of("cuda")
        if not 0 <= to < backend.device_count():
            raise MessageError(f"there is no cuda:{to} here")
        owner = get_or_create_peer(arena_id)
        piece: object = take_piece(owner, block, size, worker)
        if not isinstance(piece, CameOnDevice):
            raise MessageError("its block was taken back")
        wanted = [Wanted(start, (_PROOF_BYTES,), np.dtype(np.uint8))]
        (array,) = owner.copy_out(piece, wanted, to)
        proof = bytes(backend.to_numpy(array))
        owner.is_open = True
        return proof
