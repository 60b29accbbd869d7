"""The memory of one GPU that this process lends to others: slabs, cut into pieces."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fastdist.core.errors import DeviceError, KernelError
from fastdist.distributed.arena.layout import TAKEN
from fastdist.distributed.arena.owner import Arena
from fastdist.distributed.arena.ranges import Ranges

if TYPE_CHECKING:
    from fastdist.devices.cuda.cuda import CudaBackend
    from fastdist.devices.cuda.ipc import Slab
    from fastdist.devices.cuda.stream import CudaEvent

# Note [Slabs]
# A slab is returned to its GPU only when all peers that opened it have closed it (release.py): CUDA
# does not define the effect of an earlier release. So there are few, large slabs, and pieces of any
# size are cut from them. All slabs of a GPU together have at most MOST_BYTES, and at most 1 / SHARE
# of the GPU's memory. A piece is lent for one message, together with a block of the arena. The
# arena's table shows which peer has that block (Note [Who has a block]), so no message is needed to
# return the piece. A returned piece can be used again when the event behind its writes is complete.
# This may take a moment if the call ended right after the writes were queued. If no piece is free,
# the tensors use cuda_basic without a wait.
MOST_BYTES: Final = 2 << 30
SHARE: Final = 16
SLAB_BYTES: Final = 64 << 20
# The alignment and the smallest size of pieces. It is larger than INLINE_BYTES: a buffer of at most
# INLINE_BYTES is put into a message's first frame.
STEP: Final = 64 << 10
# The maximum number of pieces that are lent at a time. Each piece has an event, which the piece's
# reader keeps open.
MOST_PIECES: Final = 512
# The alignment of tensors in a piece.
_ALIGNMENT: Final = 256

_logger = logging.getLogger(__name__)


class Room(NamedTuple):
    """A slab, and the ranges of it that are free."""

    slab: Slab
    free: Ranges


class _SharedEvent(NamedTuple):
    """An event, and the handle by which other processes open the event."""

    event: CudaEvent
    handle: bytes


class Piece:
    """Memory that is lent to one reader, and the event behind the writes to it."""

    __slots__ = ("end", "event", "is_dropped", "kept", "lent", "room", "start")

    def __init__(self, room: Room, start: int, end: int, event: _SharedEvent) -> None:
        self.room, self.start, self.end, self.event = room, start, end, event
        # Copied arrays whose memory is not CuPy's, kept alive until the piece is free again.
        self.kept: list[Any] = []
        # The arena; and the slot, generation and row of the block that is lent with the piece.
        self.lent: tuple[Arena, int, int, memoryview] | None = None
        self.is_dropped = False

    @property
    def size(self) -> int:
        """The size of the piece in bytes."""
        return self.end - self.start

    def has_come_back(self) -> bool:
        """Return whether the reader has released the piece, or will never read it."""
        if self.lent is None:
            return self.is_dropped  # a piece that is not lent and not dropped is being filled
        arena, slot, generation, row = self.lent
        # `arena.lends` alone is not enough: a closed arena does not read its rows any more.
        is_released = len(row) > 0 and row[TAKEN] == 2 * generation + 1
        return is_released or not arena.lends(slot, generation)


class SlabRing:
    """The pieces of the slabs of one GPU. See Note [Slabs].

    Units   bytes
    Thread  any; the lock guards all attributes that `__init__` sets after it. Threads call CUDA
            and arenas while they hold the lock
    """

    def __init__(self, backend: CudaBackend, index: int, most_bytes: int | None = None) -> None:
        from fastdist.devices.cuda.ipc import uuid_of

        self._backend, self._index = backend, index
        if most_bytes is None:
            most_bytes = min(MOST_BYTES, backend.memory_info(index)[1] // SHARE)
        self.most_bytes = most_bytes
        self.uuid = uuid_of(backend, index)
        self._lock = threading.RLock()
        self._rooms: list[Room] = []
        # Slabs without a lent piece, which may soon be freed.
        self._aside: list[Room] = []
        self._out: list[Piece] = []
        # The events that no piece uses. `_num_events` counts all events.
        self._events: list[_SharedEvent] = []
        self._num_events = 0

    def take(self, size: int) -> Piece | None:
        """Return a piece of at least `size` bytes, or None if none is free, without waiting."""
        size = -(-size // STEP) * STEP
        with self._lock:
            self._collect()
            if not self._events and self._num_events == MOST_PIECES:
                return None
            found = self._cut(size)
            if found is None:
                return None
            try:
                event = self._events.pop() if self._events else self._make_event()
            except KernelError:
                found[0].free.give_back(found[1], found[1] + size)
                raise
            room, start = found
            piece = Piece(room, start, start + size, event)
            self._out.append(piece)
            return piece

    def fill(self, piece: Piece, arrays: Sequence[Any]) -> list[int]:
        """Queue copies of GPU arrays into a piece on the current stream; return their offsets.

        The piece's event is recorded behind the copies.

        Raises  KernelError
        """
        backend, index = self._backend, self._index
        stream = backend.current_stream(index)
        starts, at = [], 0
        try:
            for array in arrays:
                try:
                    backend.record_stream(array, stream)
                except DeviceError:
                    piece.kept.append(array)  # the array's memory is not CuPy's
                piece.room.slab.put(backend, piece.start + at, array, index, stream)
                starts.append(at)
                at += _rounded(array.nbytes)
        finally:
            piece.event.event.record(stream)
        return starts

    def was_lent(self, piece: Piece, arena: Arena, slot: int, generation: int) -> None:
        """Record the block of an arena that is lent to the reader together with the piece."""
        with self._lock:
            piece.lent = arena, slot, generation, arena.row(slot)

    def drop(self, piece: Piece) -> None:
        """Take back a piece that was never sent."""
        piece.is_dropped = True

    def usage(self) -> tuple[int, int]:
        """Return the number of lent bytes, and the total bytes of slabs."""
        with self._lock:
            self._collect()
            return sum(piece.size for piece in self._out), self._bytes_there()

    def set_aside(self) -> list[Room]:
        """Return the slabs of which no piece is lent, and lend no pieces of them for now.

        Each slab must be passed to `put_back` or `give_up` afterwards.
        """
        with self._lock:
            self._collect()
            idle = [room for room in self._rooms if room.free.all() == [(0, room.slab.size)]]
            self._rooms = [room for room in self._rooms if room not in idle]
            self._aside += idle
            return idle

    def put_back(self, room: Room) -> None:
        """Lend again from a slab that was set aside."""
        with self._lock:
            self._aside.remove(room)
            self._rooms.append(room)

    def give_up(self, room: Room) -> None:
        """Free a slab that was set aside, after all other processes have closed it."""
        with self._lock:
            self._aside.remove(room)
        room.slab.free()

    def _bytes_there(self) -> int:
        return sum(room.slab.size for room in (*self._rooms, *self._aside))

    def _collect(self) -> None:
        """Free each released piece for which the GPU has finished the writes."""
        back = [piece for piece in self._out if piece.has_come_back() and piece.event.event.query()]
        for piece in back:
            self._out.remove(piece)
            self._free(piece)

    def _free(self, piece: Piece) -> None:
        piece.room.free.give_back(piece.start, piece.end)
        piece.kept = []
        self._events.append(piece.event)

    def _cut(self, size: int) -> tuple[Room, int] | None:
        for room in self._rooms:
            start = room.free.take(size)
            if start is not None:
                return room, start
        made = self._make_room(size)
        if made is None:
            return None
        start = made.free.take(size)
        assert start is not None, "a slab is as large as what it was made for"
        return made, start

    def _make_room(self, size: int) -> Room | None:
        from fastdist.devices.cuda.ipc import SLAB_STEP, Slab

        there = self._bytes_there()
        wanted = -(-max(size, min(SLAB_BYTES, self.most_bytes - there)) // SLAB_STEP) * SLAB_STEP
        if there + wanted > self.most_bytes:
            return None
        try:
            slab = Slab(self._index, wanted)
        except KernelError as error:
            _logger.info("cuda:%d has no more memory for other processes: %s", self._index, error)
            self.most_bytes = there  # no further slabs
            return None
        room = Room(slab, Ranges(0, wanted))
        self._rooms.append(room)
        return room

    def _make_event(self) -> _SharedEvent:
        self._num_events += 1
        event = self._backend.shared_event(self._index)
        return _SharedEvent(event, event.handle())


def size_of(arrays: Sequence[Any]) -> int:
    """Return how many bytes of a piece the arrays take."""
    return sum(_rounded(array.nbytes) for array in arrays)


def _rounded(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT
