"""Frees idle GPU memory that was lent to other processes, after these processes have closed it."""

# A slab is recalled when memory must be freed (cuda.empty_cache) and no piece of the slab is lent.
# Peers that had pieces of the slab may still have it open, and CUDA does not define the effect of
# freeing memory that other processes have open. So each of these peers gets a request to close the
# slab, and the slab is freed after the last confirmation. No thread waits for the confirmations,
# and no piece of the slab is lent before the last one. If a peer refuses or does not answer, pieces
# of the slab are lent again. A lost worker whose process has ended has no slab open.

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from fastdist.concurrency.future import Future
from fastdist.core.errors import FastdistError, MessageError

from ..debug_log import debug_log
from ..handlers import Reply, register_handler, unregister_handler
from ..message.message import Message
from ..message.types import MessageType
from .cuda_ipc import GpuLenders, rings, slabs_of
from .slabs import Room, SlabRing

if TYPE_CHECKING:
    from ..agent import RpcAgent
    from ..workers.record import Record
    from ..workers.worker import Worker

RELEASE_TIMEOUT_S = 30.0


class SlabRelease:
    """Recalls this worker's slabs, and closes other workers' slabs on request.

    `arena_of(worker)` returns the id of the arena from which a worker lends, or None;
    `lives(record)` returns whether a worker's process exists.

    Thread  any
    """

    def __init__(
        self,
        agent: RpcAgent,
        arena_of: Callable[[Worker], int | None],
        lives: Callable[[Record], bool],
    ) -> None:
        self._agent, self._arena_of, self._lives = agent, arena_of, lives
        # Guards the two attributes below.
        self._lock = threading.Lock()
        self._lenders: list[tuple[Worker, GpuLenders]] = []
        self._is_listening = False

    def register(self) -> None:
        """Accept requests to close other workers' slabs from now on."""
        register_handler(MessageType.IPC_RELEASE_REQ, self._release_came)

    def close(self) -> None:
        """Send no more requests to close slabs, and accept none."""
        unregister_handler(MessageType.IPC_RELEASE_REQ)
        with self._lock:
            was_listening, self._is_listening = self._is_listening, False
        if was_listening:
            from fastdist.devices.cuda.memory import lent

            lent.remove(self.ask_back)

    def lends_to(self, worker: Worker, lenders: GpuLenders) -> None:
        """Record a worker that may open slabs of this worker later."""
        with self._lock:
            self._lenders.append((worker, lenders))

    def listen(self) -> None:
        """Register `ask_back`, which is then called whenever memory must be freed."""
        from fastdist.devices.cuda.memory import lent

        with self._lock:
            if not self._is_listening:
                self._is_listening = True
                lent.append(self.ask_back)

    def ask_back(self) -> None:
        """Start to return all idle slabs to their GPUs, without waiting for the peers."""
        with self._lock:
            # A lost worker whose process has ended has no slab open.
            self._lenders = [
                (worker, lenders)
                for worker, lenders in self._lenders
                if not worker.is_dead or self._lives(worker.record)
            ]
            known = [*self._lenders]
        for ring in rings():
            for room in ring.set_aside():
                handle = room.slab.handle
                holders = [one for one in known if handle in one[1].opened]
                _Asked(self._agent, ring, room, holders).begin()

    def _release_came(self, request: Message) -> Reply:
        arena_id, slab = self._arena_of(request.peer), request.metadata.get("slab")
        if not isinstance(slab, bytes):
            raise MessageError(f"this does not name a slab: {slab!r:.80}")
        owner = None if arena_id is None else slabs_of(arena_id)
        return Reply([], {"released": owner is None or owner.release(slab)})


class _Asked:
    """One recalled slab, and the workers that may have it open.

    Thread  any; the lock guards the counts
    """

    def __init__(
        self, agent: RpcAgent, ring: SlabRing, room: Room, holders: list[tuple[Worker, GpuLenders]]
    ) -> None:
        self._agent, self._ring, self._room, self._holders = agent, ring, room, holders
        self._lock = threading.Lock()
        self._open, self._refused = len(holders), 0

    def begin(self) -> None:
        """Send each worker a request to close the slab; free the slab if there are no workers."""
        if not self._holders:
            self._end()
        for worker, lenders in self._holders:
            metadata: Any = {"slab": self._room.slab.handle}
            kind = MessageType.IPC_RELEASE_REQ
            try:
                answered = self._agent.send(worker, kind, (), metadata, RELEASE_TIMEOUT_S)
            except FastdistError:
                self._look(lenders, is_released=False)
                continue
            answered.add_done_callback(partial(self._take, lenders))

    def _take(self, lenders: GpuLenders, done: Future[Reply]) -> None:
        error = done.exception()
        is_released = error is None and done.value().metadata.get("released") is True
        self._look(lenders, is_released=is_released)

    def _look(self, lenders: GpuLenders, *, is_released: bool) -> None:
        with self._lock:
            self._open -= 1
            if is_released:
                lenders.opened.discard(self._room.slab.handle)
            else:
                self._refused += 1
            is_last = not self._open
        if is_last:
            self._end()

    def _end(self) -> None:
        size, rank = self._room.slab.size, self._agent.me.rank
        if self._refused:
            self._ring.put_back(self._room)
            text = "%d bytes of a GPU stay lent: among %d workers, %d still have them open"
            debug_log.worker(rank, text, size, len(self._holders), self._refused)
        else:
            self._ring.give_up(self._room)
            debug_log.worker(rank, "%d bytes that were lent are returned to their GPU", size)
