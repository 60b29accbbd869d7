"""The channel cuda_ipc: tensors of GPUs between processes of one machine, from GPU to GPU."""

# The interface.
#
# A message's tensors of one GPU, bound for one GPU of a peer, go together: the sender copies them
# into a piece of a slab (slabs.py), on its thread's current stream, and records the piece's event
# behind them. It does not wait; later work of the program on that stream is behind the copies. The
# description of the piece, PIECE below, goes in a block of the arena, with a descriptor of that
# block among the message's buffers, as for a large tensor of the CPU; ON_DEVICE in the buffer table
# says that it stands for so many bytes of a GPU. The receiver opens slab and event by their
# handles, each once, makes its stream wait for the event, copies each tensor to its own memory, and
# releases the block when its GPU has done that: this returns the piece to the sender.
#
# So the arena (distributed/arena) tracks who has a piece, and what happens to it when a call ends,
# a connection breaks, or a process ends. Without the arena among the channels there is no cuda_ipc.
# Like the arena, it is viable only on Linux on x86.
#
# Offer (offers.py): before a pair of GPUs is used the sender lets the peer read random bytes
# through this channel. The peer answers with the bytes, or with a reason: the channel is not among
# its own; it does not see the GPU, which it looks up by UUID; cudaDeviceCanAccessPeer says no; CUDA
# refuses a handle. Until then, where it is refused, and where no piece is free, tensors go by
# cuda_basic: nobody waits. The agent's debug info shows the channel of each pair, and why.
#
# Safety: a piece is only opened for a peer whose offer was accepted. PIECE is copied before it is
# checked, since the peer may write there; the piece must be within its slab, each tensor within the
# piece, and the slab, as CUDA sees it, within memory of a GPU; a peer has MOST_SLABS and
# MOST_PIECES at most. A violation is a MessageError at the reader of the message.
#
# Ends: a peer's slabs are unmapped when it is lost or leaves, each behind the last copy from it, or
# when the peer requests that. A process keeps its own slabs until it ends, or memory must be freed
# (release.py).

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import numpy as np

from fastdist.core.device import Device
from fastdist.core.errors import DeviceError, MessageError
from fastdist.devices.backend import backend_of
from fastdist.distributed.arena.borrower import REVOKED, borrow
from fastdist.distributed.arena.layout import ARENA_BLOCK
from fastdist.distributed.arena.lender import Lender, State
from fastdist.distributed.pipe.frames import Buffer

from .slabs import MOST_PIECES, SlabRing, size_of

if TYPE_CHECKING:
    from fastdist.devices.cuda.cuda import CudaBackend
    from fastdist.devices.cuda.ipc import OpenedEvents, OpenedSlab

# The GPU's UUID, the slab's handle and size, where in it the piece begins and how long it is, and
# the event's handle.
PIECE: Final = struct.Struct("<16s64sQQQ64s")
MOST_SLABS: Final = 64


class LentPiece:
    """In the place of a buffer on its way out: bytes of a GPU, and what describes their block."""

    __slots__ = ("descriptor", "size", "slab")

    def __init__(self, descriptor: bytes, size: int, slab: bytes) -> None:
        # `slab` is the handle of what it is part of.
        self.descriptor, self.size, self.slab = descriptor, size, slab

    def __len__(self) -> int:
        return self.size


class CameOnDevice:
    """In the place of a buffer that came: bytes of a peer's GPU, its own until this is gone."""

    __slots__ = ("block", "owner", "size")

    def __init__(self, owner: PeersSlabs, block: Buffer, size: int) -> None:
        self.owner, self.block, self.size = owner, block, size

    def __len__(self) -> int:
        return self.size


class Wanted(NamedTuple):
    """One tensor of a piece, packed: where it begins, its shape and dtype."""

    start: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


# ---- the sender ----------------------------------------------------------------------------------

# Guards _rings; CUDA is called while it is held.
_rings_lock = threading.Lock()
_rings: dict[int, tuple[Any, SlabRing]] = {}


def ring_of(index: int) -> SlabRing:
    """Return the slabs of a GPU that this process lends to its peers.

    Raises  DeviceError without that GPU
    """
    backend: Any = backend_of("cuda")
    with _rings_lock:
        known = _rings.get(index)
        if known is None or known[0] is not backend:
            known = _rings[index] = backend, SlabRing(backend, index)
        return known[1]


def usage() -> dict[int, tuple[int, int]]:
    """Return, by GPU, how many bytes of slabs are lent, and how many there are."""
    with _rings_lock:
        known = {index: ring for index, (_, ring) in _rings.items()}
    return {index: ring.usage() for index, ring in known.items()}


def rings() -> list[SlabRing]:
    """Return the slabs of all GPUs that this process lends."""
    with _rings_lock:
        return [ring for _, ring in _rings.values()]


def lend_arrays(
    index: int, arrays: Sequence[Any], lender: Lender, message_id: int
) -> tuple[LentPiece, list[int]] | None:
    """Copy arrays of a GPU into a piece for a peer and a message; return it, and the offset of
    each. None if nothing is free.

    Thread  any; does not wait. Later work of its current stream is behind the copies
    Raises  KernelError
    """
    arena, ring = lender.arena(), ring_of(index)
    piece = None if arena is None else ring.take(size_of(arrays))
    if arena is None or piece is None:
        return None
    is_lent = False
    try:
        starts = ring.fill(piece, arrays)
        slab = piece.room.slab
        told = PIECE.pack(
            *(ring.uuid, slab.handle, slab.size, piece.start, piece.size, piece.event.handle)
        )
        descriptor = arena.lend(told, lender, message_id)
        is_lent = descriptor is not None
    finally:
        if not is_lent:
            ring.drop(piece)
    if descriptor is None:
        return None
    _, slot, generation, _ = ARENA_BLOCK.unpack(descriptor)
    ring.was_lent(piece, arena, slot, generation)
    return LentPiece(descriptor, piece.size, slab.handle), starts


# ---- the receiver --------------------------------------------------------------------------------


class PeersSlabs:
    """The slabs of one peer that this process has opened.

    Thread  any; the lock guards the slabs. CUDA is called while it is held
    """

    def __init__(self) -> None:
        # Whether an offer of the peer's was taken.
        self.is_open = False
        self._lock = threading.Lock()
        self._slabs: dict[bytes, OpenedSlab] = {}
        self._is_closed = False
        self._events: OpenedEvents | None = None
        # By a GPU of theirs and one of ours that can read it: its index here. Entries only appear.
        self._theirs: dict[tuple[bytes, int], int] = {}

    def copy_out(self, came: CameOnDevice, wanted: Sequence[Wanted], index: int) -> list[Any]:
        """Return fresh arrays of a GPU with what lies in a piece, there for the thread's current
        stream; the piece is the peer's again when that has come so far.

        Raises  MessageError for a piece, or a tensor, that cannot be; DeviceError for a GPU that is
                not visible or cannot be read; KernelError
        """
        block = came.block
        came.block = REVOKED
        uuid, handle, slab_size, start, size, event_handle = PIECE.unpack(bytes(block))
        if not (
            size == came.size and 0 < size <= slab_size < 1 << 48 and start <= slab_size - size
        ):
            raise MessageError(
                f"a piece of {size} bytes at {start} in a slab of {slab_size}, for a buffer of "
                f"{came.size} bytes"
            )
        backend: Any = backend_of("cuda")
        theirs = self._readable(backend, uuid, index)
        slab = self._opened(backend, theirs, handle, slab_size)
        event = self._known_events(backend).get(theirs, event_handle)
        backend.current_stream(index).wait_event(event)
        within = [(start + at, shape, dtype) for at, shape, dtype in wanted]
        arrays, stream = slab.copy_out(within, index)
        # The block goes with the function, once that was called.
        stream.launch_host_function(partial(_has_read, slab, [block]))
        return arrays

    def close(self) -> None:
        """Unmap all, each slab behind the last copy from it, and open nothing any more."""
        with self._lock:
            self._is_closed = True
            slabs, self._slabs = self._slabs, {}
            self._events = None
        for slab in slabs.values():
            slab.close()

    def release(self, handle: bytes) -> bool:
        """Unmap a slab that its owner wants back; return False while a copy reads it."""
        with self._lock:
            slab = self._slabs.get(handle)
            if slab is not None and not slab.close_if_idle():
                return False
            self._slabs.pop(handle, None)
            return True

    def num_slabs(self) -> int:
        """Return how many slabs are open."""
        return len(self._slabs)

    def _readable(self, backend: CudaBackend, uuid: bytes, index: int) -> int:
        """Return the index here of a peer's GPU, which one of ours can read."""
        from fastdist.devices.cuda.ipc import index_of_uuid

        known = self._theirs.get((uuid, index))
        if known is not None:
            return known
        theirs = index_of_uuid(backend, uuid)
        if theirs is None:
            raise DeviceError(
                f"the GPU of UUID {uuid.hex()} is not visible here: CUDA_VISIBLE_DEVICES hides it, "
                "or the container does"
            )
        if theirs != index and not backend.reads_memory_of(index, theirs):
            raise DeviceError(f"cuda:{index} cannot read the memory of cuda:{theirs} directly")
        self._theirs[uuid, index] = theirs
        return theirs

    def _opened(self, backend: CudaBackend, index: int, handle: bytes, size: int) -> OpenedSlab:
        from fastdist.devices.cuda.ipc import OpenedSlab

        with self._lock:
            known = self._slabs.get(handle)
            if known is None:
                if self._is_closed:
                    raise MessageError("a piece of a worker that was lost")
                if len(self._slabs) == MOST_SLABS:
                    raise MessageError(f"more than {MOST_SLABS} slabs of one worker")
                known = self._slabs[handle] = OpenedSlab(backend, index, handle, size)
        if size != known.size:
            raise MessageError(f"a slab of {known.size} bytes that has {size} now")
        return known

    def _known_events(self, backend: CudaBackend) -> OpenedEvents:
        from fastdist.devices.cuda.ipc import OpenedEvents

        with self._lock:
            if self._events is None:
                self._events = OpenedEvents(backend.event_of_handle, MOST_PIECES)
            return self._events


def _has_read(slab: OpenedSlab, block: list[Buffer]) -> None:
    block.clear()
    slab.done_reading()


# Guards changes of _peers; a look-up reads one entry.
_peers_lock = threading.Lock()
_peers: dict[int, PeersSlabs] = {}


def get_or_create_peer(arena_id: int) -> PeersSlabs:
    """Return the opened slabs of the owner of an arena; messages may name its pieces once it says
    `is_open`.
    """
    with _peers_lock:
        return _peers.setdefault(arena_id, PeersSlabs())


def slabs_of(arena_id: int) -> PeersSlabs | None:
    """Return the opened slabs of the owner of an arena, if there are any."""
    return _peers.get(arena_id)


def close_peer(arena_id: int) -> None:
    """Let no message name pieces of the owner of an arena any more, and unmap what was opened."""
    with _peers_lock:
        found = _peers.pop(arena_id, None)
    if found is not None:
        found.close()


def borrow_piece(descriptor: Buffer, size: int, sender: object | None = None) -> Buffer:
    """Return the CameOnDevice that a message's descriptor names; REVOKED if it is no longer there.

    Raises  MessageError for a descriptor that cannot be
    """
    peer = _peers.get(ARENA_BLOCK.unpack(descriptor)[0])
    return (
        REVOKED if peer is None or not peer.is_open else take_piece(peer, descriptor, size, sender)
    )


def take_piece(
    peer: PeersSlabs, descriptor: Buffer, size: int, sender: object | None = None
) -> Buffer:
    """Return the memory that a peer's descriptor names, as borrow_piece does."""
    block = borrow(descriptor, PIECE.size, sender)
    return block if block is REVOKED else cast(Buffer, CameOnDevice(peer, block, size))


# ---- one peer ------------------------------------------------------------------------------------


class GpuLender(Lender):
    """The way from one GPU of this process to one of a peer's, once both have proved it."""

    def __init__(self, mine: Device, theirs: Device, offer: Callable[[Any], None]) -> None:
        super().__init__(offer, 0)
        self.mine, self.theirs = mine, theirs

    @property
    def is_open(self) -> bool:
        """Whether pieces may be lent; if nobody has offered it yet, it is offered now."""
        return self.arena() is not None

    def describe(self) -> str:
        """Return by which way tensors go, and why."""
        way = "cuda_ipc" if self._arena is not None else "cuda_basic"
        untold = "not offered yet" if self._state is State.UNTRIED else self._state.value
        why = "" if self._arena is not None else f" ({self._reason or untold})"
        return f"{self.mine} to {self.theirs} by {way}{why}"


class GpuLenders:
    """Those of all pairs of GPUs to one peer, whose arena `host` lends from.

    `offer(lender)` leads to its `open` or `refuse`.

    Thread  any; entries only appear
    """

    def __init__(self, host: Lender, offer: Callable[[Any], None]) -> None:
        self.host = host
        self._offer = offer
        self._pairs: dict[tuple[Device, Device], GpuLender] = {}
        # The handles of slabs that it may have open.
        self.opened: set[bytes] = set()

    def lend(
        self, mine: Device, theirs: Device, arrays: Sequence[Any], message_id: int
    ) -> tuple[LentPiece, list[int]] | None:
        """Return as lend_arrays, for one pair; None while it is not open."""
        if mine.index is None or not self.is_open(mine, theirs):
            return None
        lent = lend_arrays(mine.index, arrays, self.host, message_id)
        if lent is not None:
            self.opened.add(lent[0].slab)
        return lent

    def is_open(self, mine: Device, theirs: Device) -> bool:
        """Return whether one pair is open; if nobody has offered it yet, it is offered now."""
        if mine.type != "cuda" or theirs.type != "cuda":
            return False
        pair = self._pairs.get((mine, theirs))
        if pair is None:
            made = GpuLender(mine, theirs, self._offer)
            pair = self._pairs.setdefault((mine, theirs), made)
        return pair.is_open

    def describe(self) -> str:
        """Return by which way tensors of GPUs go."""
        return "; ".join([pair.describe() for pair in [*self._pairs.values()]])
