"""CuPy's memory pool, wrapped to delay the reuse of memory that other streams still use."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from threading import get_ident
from typing import Any

from fastdist.core.errors import DeviceError, KernelError, OutOfMemoryError
from fastdist.instrumentation.memory_meter import memory_meter
from fastdist.instrumentation.time_ranges import time_ranges

from .library import cupy
from .stream import CudaEvent, CudaStream

# Note [Memory on several streams]
# CuPy's pool reuses freed memory immediately, for later work of the stream on which the memory was
# allocated. But another stream, passed to `record_stream`, may still be reading the memory. So each
# allocation is wrapped: when its last array is deleted, events are recorded on the streams that
# were passed. The pool gets the memory back when these events are complete. Every later allocation
# checks this.


class Limbo(deque[tuple[list[CudaEvent], Any]]):
    """Memory that streams may still use, with the events to wait for.

    append and popleft are atomic.
    """

    is_open = True  # False once the backend has closed: after that, events cannot be recorded


class Usage:
    """Statistics of one device: bytes and allocations in use, and their maximum.

    Thread  any, including finalizers. There is no lock, because a lock would take longer than all
            other code here. Instead, no function is called between the read and the write of a
            number: Python switches threads, and runs finalizers, only at calls and at the ends of
            loops
    """

    __slots__ = (
        "all_bytes", "all_count", "freed_bytes", "freed_count", "most_bytes", "most_count",
        "num_ooms",
    )  # fmt: skip

    def __init__(self) -> None:
        self.most_bytes = self.most_count = self.num_ooms = 0
        # Totals since the start or the last `forget_all`: memory allocated, and memory freed again.
        self.all_bytes = self.all_count = self.freed_bytes = self.freed_count = 0

    @property
    def bytes(self) -> int:
        """The number of bytes in use."""
        return self.all_bytes - self.freed_bytes

    @property
    def count(self) -> int:
        """The number of allocations in use."""
        return self.all_count - self.freed_count

    def forget_most(self) -> None:
        """Reset the maximum to the memory in use now."""
        self.most_bytes, self.most_count = self.bytes, self.count

    def forget_all(self) -> None:
        """Reset the totals to the memory in use now."""
        # If a finalizer frees memory during this call, that memory stays in both totals.
        freed_bytes, freed_count = self.freed_bytes, self.freed_count
        self.all_bytes -= freed_bytes
        self.freed_bytes -= freed_bytes
        self.all_count -= freed_count
        self.freed_count -= freed_count
        self.num_ooms = 0


class _Block:
    """One allocation, and the streams that may still use it when its last array is deleted."""

    __slots__ = ("__weakref__", "_limbo", "_pointer", "_size", "_usage", "streams")

    def __init__(self, pointer: Any, limbo: Limbo, usage: Usage) -> None:
        self._pointer, self._limbo, self._usage = pointer, limbo, usage
        # The size as rounded up by the pool, because that is how much device memory is in use.
        self._size = size = pointer.mem.size
        self.streams: set[CudaStream] | None = None  # created for the first stream
        usage.all_count = count = usage.all_count + 1
        usage.all_bytes = held = usage.all_bytes + size
        count -= usage.freed_count
        held -= usage.freed_bytes
        if held > usage.most_bytes:
            usage.most_bytes = held
        if count > usage.most_count:
            usage.most_count = count

    def __del__(self) -> None:
        usage = self._usage
        usage.freed_count += 1
        usage.freed_bytes += self._size
        if self.streams and self._limbo.is_open and not sys.is_finalizing():
            try:
                events = [stream.record_event() for stream in self.streams]
            except KernelError:
                # An earlier kernel failed, and CUDA raises its error at every later call. No stream
                # uses the memory any more, so it returns to the pool now. On Python 3.13 the
                # error's traceback is in a reference cycle, which keeps this block alive until the
                # next garbage collection, so the block itself drops the pointer.
                self._pointer = None
                return
            self._limbo.append((events, self._pointer))


def _counted_block(pointer: Any, limbo: Limbo, usage: Usage) -> _Block:
    block = _Block(pointer, limbo, usage)
    memory_meter.count_block(block, int(pointer.mem.size))
    return block


# The function that creates a block; replaced by `_counted_block` while a profiler counts bytes.
_make_block: Callable[[Any, Limbo, Usage], _Block] = _Block


class Allocator:
    """A wrapper of CuPy's pool; CuPy calls `allocate` for every array.

    Thread  any; no method acquires a lock, because a finalizer may interrupt any line
    """

    def __init__(self, allocate_in_pool: Callable[[int], Any]) -> None:
        self._allocate_in_pool = allocate_in_pool
        cuda = cupy().cuda
        self._memory, self._pointer = cuda.UnownedMemory, cuda.MemoryPointer
        self._out_of_memory = cuda.memory.OutOfMemoryError
        self._current_device = cuda.runtime.getDevice
        self._limbo = Limbo()
        # The allocation function of each captured stream, by the stream's handle.
        self._captured: dict[int, Callable[[int], Any]] = {}
        # The allocation function that a thread uses instead of the default pool, by thread and
        # device.
        self._chosen: dict[tuple[int, int], Callable[[int], Any]] = {}
        self.usages = [Usage() for _ in range(cuda.runtime.getDeviceCount())]

    def allocate(self, size_bytes: int) -> Any:
        """Return a pointer to memory of the current device.

        Raises  OutOfMemoryError if there is too little memory even after a wait for other streams
        """
        allocate = self._allocate_in_pool
        if self._chosen:
            here = get_ident(), self._current_device()
            allocate = self._chosen.get(here, allocate)
        if self._captured:
            # During a capture, CUDA rejects event queries, so no memory is returned to the pool.
            allocate = self._captured.get(cupy().cuda.get_current_stream().ptr, allocate)
        elif self._limbo:
            self._release(wait=False)
        out_of_memory = self._out_of_memory
        try:
            pointer = allocate(size_bytes)
        except out_of_memory:
            if not self._captured:
                self._release(wait=True)
            try:
                pointer = allocate(size_bytes)
            except out_of_memory as error:
                self.usages[self._current_device()].num_ooms += 1
                raise OutOfMemoryError(
                    f"cuda: cannot allocate {size_bytes} bytes: {error}"
                ) from error
        if not size_bytes:
            return pointer
        index = pointer.mem.device_id
        block = _make_block(pointer, self._limbo, self.usages[index])
        memory = self._memory(pointer.ptr, size_bytes, block, index)
        return self._pointer(memory, 0)

    def close(self) -> None:
        """Stop delaying the reuse of memory, because the backend (and perhaps CuPy) shuts down."""
        self._limbo.is_open = False
        self._limbo.clear()

    def choose(
        self, index: int, allocate: Callable[[int], Any] | None
    ) -> Callable[[int], Any] | None:
        """Set the function that allocates this thread's memory on a device, or None for the default
        pool; return the previous setting.
        """
        here = get_ident(), index
        before = self._chosen.pop(here, None)
        if allocate is not None:
            self._chosen[here] = allocate
        return before

    def give_to_capture(self, handle: int, allocate: Callable[[int], Any] | None) -> None:
        """Set the function that allocates a captured stream's memory; None removes the function."""
        if allocate is not None:
            self._captured[handle] = allocate
            return
        ended = self._captured.pop(handle, None)
        for other in [one for one, found in self._captured.items() if found == ended]:
            del self._captured[other]

    def share_capture(self, handle: int, other: int) -> None:
        """Make stream `other` use the allocation function of the captured stream `handle`, until
        the capture ends. The caller then makes `other` wait for an event of the captured stream.
        """
        self._captured[other] = self._captured[handle]

    def has_capture(self) -> bool:
        """Return whether any stream is being captured, in any thread."""
        return bool(self._captured)

    def _release(self, *, wait: bool) -> None:
        """Return to the pool the memory that no stream uses any more."""
        for _ in range(len(self._limbo)):
            try:
                events, pointer = self._limbo.popleft()
            except IndexError:
                return  # another thread has taken the last entry
            for event in events if wait else ():
                event.synchronize()
            if not all(event.query() for event in events):
                self._limbo.append((events, pointer))


def hold_for(array: Any, stream: CudaStream) -> None:
    """When the array's memory is freed, delay its reuse until `stream` has done its queued work.

    Raises  DeviceError if the memory was allocated before fastdist's allocator was installed
    """
    if not array.size:
        return
    # See Note [Memory on several streams].
    block = getattr(array.data.mem, "_owner", None)
    if not isinstance(block, _Block):
        raise DeviceError(
            "record_stream: the array's memory was allocated before fastdist's cuda backend was"
            " loaded; copy it first, or keep it until the stream is done"
        )
    if block.streams is None:
        block.streams = set()
    block.streams.add(stream)


# Functions that free idle memory, one for each module that lends memory to other processes.
lent: list[Callable[[], None]] = []


def give_back_lent() -> None:
    """Free idle memory of the modules that lend memory to other processes, without waiting."""
    for give_back in [*lent]:
        give_back()


def _count_blocks(is_wanted: bool) -> None:
    global _make_block
    _make_block = _counted_block if is_wanted else _Block


time_ranges.watch("memory", _count_blocks)
