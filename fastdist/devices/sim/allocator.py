"""The caching allocator of a simulated device: blocks kept per stream, poisoned when not owned."""

from __future__ import annotations

import threading
from collections import deque
from typing import Final

import numpy as np

from fastdist.core.errors import OutOfMemoryError

from .faults import Behaviour
from .stream import SimEvent, SimStream

# All ones: NaN in every floating dtype, -1 in every signed integer, so that a stale or early read
# shows.
POISON: Final = 0xFF
SMALLEST_BYTES: Final = 512
_LARGE_BYTES: Final = 1 << 20
_LARGE_STEP_BYTES: Final = 2 << 20

# Note [Memory and streams]
# A block belongs to the stream on which it was allocated: released, it may serve that stream again
# at once, since the old work and the new are in one queue. A stream that used it besides must be
# named by record_stream; then the block waits for events of those streams, recorded when it is
# released. An array dies in a finalizer, perhaps inside this allocator's own lock, so `release`
# takes none: it appends to `_released`, and the next allocation sorts that out.


class Block:
    """Memory of a device, and the stream whose free list it returns to."""

    __slots__ = ("memory", "stream")

    def __init__(self, size_bytes: int, stream: SimStream) -> None:
        # Poisoned here as well: a stream that forgot to wait looks before the owner's poison.
        self.memory: np.ndarray = np.full(size_bytes, POISON, np.uint8)
        self.stream = stream


class CachingAllocator:
    """Blocks of one device: in use, waiting for streams, or free.

    Units   bytes
    Thread  any
    """

    def __init__(self, index: int, behaviour: Behaviour) -> None:
        self.index = index
        self._behaviour = behaviour
        # Guards all below but `_released`; re-entered by finalizers that allocate while the holder
        # collects garbage.
        self._blocks_lock = threading.RLock()
        self._free: dict[tuple[SimStream, int], list[Block]] = {}
        self._waiting: list[tuple[Block, list[SimEvent]]] = []
        self._released: deque[tuple[Block, list[SimEvent]]] = deque()
        self._allocated = 0
        self._reserved = 0
        self._limit: int | None = None

    def allocate(self, size_bytes: int, stream: SimStream) -> Block:
        """Return a block of at least size_bytes, full of poison as far as `stream` can see.

        Raises  OutOfMemoryError at the limit, on request, or if the machine has no more
        """
        rounded = _round_up(size_bytes)
        if self._behaviour.allocation_fails():
            raise self._out_of_memory(size_bytes, "as a test requested")
        with self._blocks_lock:
            self._sort_out_released()
            free = self._free.get((stream, rounded))
            block = free.pop() if free else self._reserve(rounded, stream, size_bytes)
            self._allocated += rounded
        stream.launch_quietly(block.memory.fill, POISON)
        stream.advance()
        return block

    def release(self, block: Block, other_streams: set[SimStream]) -> None:
        """Take a block back. Called by finalizers: uses no lock and does not raise."""
        events = [stream.record_event() for stream in other_streams]
        if not events:
            block.stream.launch_quietly(block.memory.fill, POISON)
        self._released.append((block, events))

    def memory_allocated(self) -> int:
        """Return how much live arrays hold."""
        with self._blocks_lock:
            self._sort_out_released()
            return self._allocated

    def memory_reserved(self) -> int:
        """Return how much is held, in use or kept for later."""
        with self._blocks_lock:
            self._sort_out_released()
            return self._reserved

    def set_limit(self, limit_bytes: int | None) -> None:
        """Let the device have only so much memory."""
        with self._blocks_lock:
            self._limit = limit_bytes

    def empty_cache(self) -> None:
        """Give free blocks back to the machine."""
        with self._blocks_lock:
            self._sort_out_released()
            for blocks in self._free.values():
                self._reserved -= sum(block.memory.nbytes for block in blocks)
            self._free.clear()

    def _reserve(self, rounded: int, stream: SimStream, wanted: int) -> Block:
        if self._limit is not None and self._reserved + rounded > self._limit:
            self.empty_cache()
            if self._reserved + rounded > self._limit:
                raise self._out_of_memory(wanted, f"the limit is {self._limit}")
        try:
            block = Block(rounded, stream)
        except MemoryError:
            raise self._out_of_memory(wanted, "the machine has no more") from None
        self._reserved += rounded
        return block

    def _sort_out_released(self) -> None:
        while self._released:
            block, events = self._released.popleft()
            self._allocated -= block.memory.nbytes
            self._waiting.append((block, events))
        waiting, self._waiting = self._waiting, []
        for block, events in waiting:
            if not all(event.query() for event in events):
                self._waiting.append((block, events))
                continue
            if events:
                block.stream.launch_quietly(block.memory.fill, POISON)
            self._free.setdefault((block.stream, block.memory.nbytes), []).append(block)

    def _out_of_memory(self, wanted: int, why: str) -> OutOfMemoryError:
        return OutOfMemoryError(
            f"sim:{self.index} out of memory. Tried to allocate {wanted} bytes; "
            f"live arrays hold {self._allocated}, "
            f"{self._reserved - self._allocated} more are kept for reuse, {why}"
        )


def _round_up(size_bytes: int) -> int:
    if size_bytes <= _LARGE_BYTES:
        return max(SMALLEST_BYTES, 1 << (size_bytes - 1).bit_length() if size_bytes > 1 else 1)
    return -(-size_bytes // _LARGE_STEP_BYTES) * _LARGE_STEP_BYTES
