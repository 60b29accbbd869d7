"""The caching allocator of a simulated device: free lists per stream, and poisoned free memory."""

from __future__ import annotations

import threading
from collections import deque
from typing import Final

import numpy as np

from fastdist.core.errors import OutOfMemoryError

from .faults import Behaviour
from .stream import SimEvent, SimStream

# The byte of poisoned memory, with all bits set: NaN in every floating-point dtype and -1 in every
# signed integer. So reads before the first write, or after the release, are visible in results.
POISON: Final = 0xFF
SMALLEST_BYTES: Final = 512
_LARGE_BYTES: Final = 1 << 20
_LARGE_STEP_BYTES: Final = 2 << 20

# Note [Memory and streams]
# A block belongs to the stream on which it was allocated. After the block's release, this stream
# may reuse it immediately, because old and new work are in the same queue. Any other stream that
# uses the block must be passed to `record_stream`. Events are recorded on these streams at the
# release, and the block is free only when the events have passed. A finalizer releases a block,
# perhaps while this allocator's own lock is held. So `release` acquires no lock: it appends to
# `_released`, which the next allocation processes.


class Block:
    """Memory of a device, and the stream to whose free list the memory returns."""

    __slots__ = ("memory", "stream")

    def __init__(self, size_bytes: int, stream: SimStream) -> None:
        # The memory is poisoned here too: `allocate` only queues a fill, and another stream that
        # fails to wait may read the memory before the fill.
        self.memory: np.ndarray = np.full(size_bytes, POISON, np.uint8)
        self.stream = stream


class CachingAllocator:
    """The blocks of one device: in use, waiting for streams, or free.

    Units   bytes
    Thread  any
    """

    def __init__(self, index: int, behaviour: Behaviour) -> None:
        self.index = index
        self._behaviour = behaviour
        # Guards all attributes below except `_released`. The lock is reentrant, because a garbage
        # collection in the thread that holds the lock may run finalizers that allocate.
        self._blocks_lock = threading.RLock()
        self._free: dict[tuple[SimStream, int], list[Block]] = {}
        self._waiting: list[tuple[Block, list[SimEvent]]] = []
        self._released: deque[tuple[Block, list[SimEvent]]] = deque()
        self._allocated = 0
        self._reserved = 0
        self._limit: int | None = None

    def allocate(self, size_bytes: int, stream: SimStream) -> Block:
        """Return a block of at least size_bytes, and queue on `stream` a fill with poison.

        Raises  OutOfMemoryError if the limit is exceeded, if a test injects this error, or if the
                machine is out of memory
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
        """Take a block back. Called by finalizers, so it acquires no lock and does not raise."""
        events = [stream.record_event() for stream in other_streams]
        if not events:
            block.stream.launch_quietly(block.memory.fill, POISON)
        self._released.append((block, events))

    def memory_allocated(self) -> int:
        """Return the number of bytes in use by live arrays."""
        with self._blocks_lock:
            self._sort_out_released()
            return self._allocated

    def memory_reserved(self) -> int:
        """Return the number of bytes that the allocator holds, in use or free for reuse."""
        with self._blocks_lock:
            self._sort_out_released()
            return self._reserved

    def set_limit(self, limit_bytes: int | None) -> None:
        """Limit the memory of the device."""
        with self._blocks_lock:
            self._limit = limit_bytes

    def empty_cache(self) -> None:
        """Return all free blocks to the machine."""
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
