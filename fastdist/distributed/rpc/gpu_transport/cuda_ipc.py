"""The channel cuda_ipc: sends tensors between processes of one machine, from GPU to GPU."""

# The interface.
#
# All tensors of a message that go from one GPU to one GPU of a peer are sent together. The sender
# copies them into a piece of a slab (slabs.py), on its thread's current stream, and records the
# piece's event behind the copies. The sender does not wait: later work of the program on that
# stream runs after the copies. The description of the piece, PIECE below, goes into a block of the
# arena, as a large CPU tensor would. The message has a descriptor of that block, and ON_DEVICE in
# the buffer table shows that the block describes memory of a GPU. The receiver opens the slab and
# the event by their handles, each once. It makes its stream wait for the event, and copies each
# tensor to its own memory. When the GPU has done the copies, the receiver releases the block, which
# returns the piece to the sender.
#
# So the arena (distributed/arena) tracks which peer has a piece, and frees the piece when a call
# ends, a connection breaks, or a process ends. The channel cuda_ipc needs the channel `arena`. Like
# the arena, it is viable only on Linux on x86.
#
# Offer (offers.py): before a pair of GPUs is used, the sender lets the peer read random bytes
# through this channel. The peer answers with the bytes, or with a reason for its refusal. The
# reasons are: the peer does not have the channel; no GPU that it sees has the sent UUID;
# cudaDeviceCanAccessPeer returns no; CUDA refuses a handle. Until the offer is accepted, if the
# offer is refused, or if no piece is free, tensors use cuda_basic without a wait. The agent's debug
# info has each pair's channel, and the reason for it.
#
# Safety: the receiver only opens pieces of a peer whose offer it has accepted. It copies PIECE
# before it checks the values, since the peer may write to the block. The piece must be within its
# slab, each tensor within the piece, and the slab within an allocation as CUDA reports it. A peer
# has at most MOST_SLABS slabs and MOST_PIECES pieces. A violation raises MessageError for the
# reader of the message.
#
# End: a peer's slabs are unmapped when the peer is lost, leaves or requests it. Each slab is
# unmapped after the last copy from it. A process keeps its own slabs until it ends, or until memory
# must be freed (release.py).

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

# The GPU's UUID, the slab's handle and size, the start and size of the piece in the slab, and the
# event's handle.
PIECE: Final = struct.Struct("<16s64sQQQ64s")
MOST_SLABS: Final = 64


class LentPiece:
    """Replaces a buffer in an outgoing message: bytes of a GPU, and their block's descriptor."""

    __slots__ = ("descriptor", "size", "slab")

    def __init__(self, descriptor: bytes, size: int, slab: bytes) -> None:
        # `slab` is the handle of the slab that contains the bytes.
        self.descriptor, self.size, self.slab = descriptor, size, slab

    def __len__(self) -> int:
        return self.size


class CameOnDevice:
    """Replaces a buffer in a received message: memory of a GPU, lent until this object is freed."""

    __slots__ = ("block", "owner", "size")

    def __init__(self, owner: PeersSlabs, block: Buffer, size: int) -> None:
        self.owner, self.block, self.size = owner, block, size

    def __len__(self) -> int:
        return self.size


class Wanted(NamedTuple):
    """One packed tensor of a piece: its offset in bytes, its shape and its dtype."""

    start: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


# ---- the sender ----------------------------------------------------------------------------------

# Guards _rings. Threads call CUDA while they hold this lock.
_rings_lock = threading.Lock()
_rings: dict[int, tuple[Any, SlabRing]] = {}


def ring_of(index: int) -> SlabRing:
    """Return the slabs that this process lends to its peers on one of its GPUs.

    Raises  DeviceError if this process does not have that GPU
    """
    backend: Any = backend_of("cuda")
    with _rings_lock:
        known = _rings.get(index)
        if known is None or known[0] is not backend:
            known = _rings[index] = backend, SlabRing(backend, index)
        return known[1]


def usage() -> dict[int, tuple[int, int]]:
    """Return a dictionary: index of a GPU -> (lent bytes, total bytes of its slabs)."""
    with _rings_lock:
        known = {index: ring for index, (_, ring) in _rings.items()}
    return {index: ring.usage() for index, ring in known.items()}


def rings() -> list[SlabRing]:
    """Return the SlabRing of each GPU on which this process lends memory."""
    with _rings_lock:
        return [ring for _, ring in _rings.values()]


def lend_arrays(
    index: int, arrays: Sequence[Any], lender: Lender, message_id: int
) -> tuple[LentPiece, list[int]] | None:
    """Copy arrays of a GPU into a piece for one message to a peer.

    Return the piece and the arrays' offsets, or None if no piece is free.

    Thread  any; does not wait. Later work on the thread's stream runs after the copies
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

    Thread  any; the lock guards the slabs. Threads call CUDA while they hold this lock
    """

    def __init__(self) -> None:
        # Whether this process has accepted an offer of the peer.
        self.is_open = False
        self._lock = threading.Lock()
        self._slabs: dict[bytes, OpenedSlab] = {}
        self._is_closed = False
        self._events: OpenedEvents | None = None
        # (UUID of a GPU of the peer, index of a GPU that can read its memory) -> index of the
        # peer's GPU. Both indices are this process's. Entries are never removed.
        self._theirs: dict[tuple[bytes, int], int] = {}

    def copy_out(self, came: CameOnDevice, wanted: Sequence[Wanted], index: int) -> list[Any]:
        """Return new arrays on a GPU with copies from a piece, ready for the current stream.

        The piece is released to the peer when the copies are done.

        Raises  MessageError for an invalid piece or tensor; DeviceError for a GPU that is not
                visible or cannot be read; KernelError
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
        # Only this list refers to the block; the host function clears the list.
        stream.launch_host_function(partial(_has_read, slab, [block]))
        return arrays

    def close(self) -> None:
        """Unmap each slab after the last copy from it, and open no further slabs."""
        with self._lock:
            self._is_closed = True
            slabs, self._slabs = self._slabs, {}
            self._events = None
        for slab in slabs.values():
            slab.close()

    def release(self, handle: bytes) -> bool:
        """Unmap a slab at its owner's request; return False, without unmapping, if it is in use."""
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
        """Return the local index of a peer's GPU; check that GPU `index` can read its memory."""
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


# Guards changes of _peers; a look-up reads one entry without this lock.
_peers_lock = threading.Lock()
_peers: dict[int, PeersSlabs] = {}


def get_or_create_peer(arena_id: int) -> PeersSlabs:
    """Return the PeersSlabs of the peer that owns an arena.

    Messages may name pieces of the peer's slabs only while `is_open` is true.
    """
    with _peers_lock:
        return _peers.setdefault(arena_id, PeersSlabs())


def slabs_of(arena_id: int) -> PeersSlabs | None:
    """Return the PeersSlabs of the peer that owns an arena, or None if there is none."""
    return _peers.get(arena_id)


def close_peer(arena_id: int) -> None:
    """Refuse pieces of the peer that owns an arena from now on, and unmap the peer's slabs."""
    with _peers_lock:
        found = _peers.pop(arena_id, None)
    if found is not None:
        found.close()


def borrow_piece(descriptor: Buffer, size: int, sender: object | None = None) -> Buffer:
    """Return a CameOnDevice for a message's descriptor; REVOKED if the block was taken back.

    Raises  MessageError for an invalid descriptor
    """
    peer = _peers.get(ARENA_BLOCK.unpack(descriptor)[0])
    return (
        REVOKED if peer is None or not peer.is_open else take_piece(peer, descriptor, size, sender)
    )


def take_piece(
    peer: PeersSlabs, descriptor: Buffer, size: int, sender: object | None = None
) -> Buffer:
    """Return a CameOnDevice as `borrow_piece` does, but without a check of `peer.is_open`."""
    block = borrow(descriptor, PIECE.size, sender)
    return block if block is REVOKED else cast(Buffer, CameOnDevice(peer, block, size))


# ---- one peer ------------------------------------------------------------------------------------


class GpuLender(Lender):
    """Lends pieces from one GPU of this process to one GPU of a peer, after an accepted offer."""

    def __init__(self, mine: Device, theirs: Device, offer: Callable[[Any], None]) -> None:
        super().__init__(offer, 0)
        self.mine, self.theirs = mine, theirs

    @property
    def is_open(self) -> bool:
        """Whether pieces may be lent. The first read makes the offer."""
        return self.arena() is not None

    def describe(self) -> str:
        """Return the channel for the pair's tensors; if it is cuda_basic, also the reason."""
        way = "cuda_ipc" if self._arena is not None else "cuda_basic"
        untold = "not offered yet" if self._state is State.UNTRIED else self._state.value
        why = "" if self._arena is not None else f" ({self._reason or untold})"
        return f"{self.mine} to {self.theirs} by {way}{why}"


class GpuLenders:
    """One GpuLender for each pair of a GPU of this process and a GPU of one peer.

    `host` lends this process's arena to the peer. `offer(lender)` starts an offer, which ends with
    a call of the lender's `open` or `refuse`.

    Thread  any; pairs are never removed
    """

    def __init__(self, host: Lender, offer: Callable[[Any], None]) -> None:
        self.host = host
        self._offer = offer
        self._pairs: dict[tuple[Device, Device], GpuLender] = {}
        # The handles of slabs that the peer may have open.
        self.opened: set[bytes] = set()

    def lend(
        self, mine: Device, theirs: Device, arrays: Sequence[Any], message_id: int
    ) -> tuple[LentPiece, list[int]] | None:
        """Lend arrays for one pair, as `lend_arrays` does; return None if the pair is not open."""
        if mine.index is None or not self.is_open(mine, theirs):
            return None
        lent = lend_arrays(mine.index, arrays, self.host, message_id)
        if lent is not None:
            self.opened.add(lent[0].slab)
        return lent

    def is_open(self, mine: Device, theirs: Device) -> bool:
        """Return whether a pair is open; make the offer if there was none."""
        if mine.type != "cuda" or theirs.type != "cuda":
            return False
        pair = self._pairs.get((mine, theirs))
        if pair is None:
            made = GpuLender(mine, theirs, self._offer)
            pair = self._pairs.setdefault((mine, theirs), made)
        return pair.is_open

    def describe(self) -> str:
        """Return a text with the channel of each pair of GPUs."""
        return "; ".join([pair.describe() for pair in [*self._pairs.values()]])
