"""GPU memory that other processes of the machine can open, and GPU memory of other processes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from fastdist.core.errors import DeviceError

from .library import cupy, device_errors

if TYPE_CHECKING:
    from .cuda import CudaBackend
    from .stream import CudaEvent, CudaStream

HANDLE_BYTES: Final = 64
UUID_BYTES: Final = 16
# GPUs map memory in pages of this size. A slab does not share a page with other memory, because a
# process that opens the slab can access whole pages.
SLAB_STEP: Final = 2 << 20
_OF_A_DEVICE: Final = 2  # cudaMemoryTypeDevice


def uuid_of(backend: CudaBackend, index: int) -> bytes:
    """Return the UUID of a GPU, which is the same in every process of the machine."""
    return bytes(backend.properties(index)["uuid"])[:UUID_BYTES]


def index_of_uuid(backend: CudaBackend, uuid: bytes) -> int | None:
    """Return this process's index of the GPU with a UUID; None if that GPU is not visible."""
    indices = range(backend.device_count())
    return next((i for i in indices if uuid_of(backend, i) == uuid), None)


class Slab:
    """Shareable memory allocated by cudaMalloc; memory of CuPy's pool cannot be shared in parts.

    Raises  KernelError if the GPU is out of memory, or returns no IPC handle
    """

    __slots__ = ("_index", "_memory", "handle", "size")

    def __init__(self, index: int, size: int) -> None:
        self.size, self._index = size, index
        with cupy().cuda.Device(index), device_errors():
            self._memory: Any = cupy().cuda.Memory(size)
            self.handle = bytes(cupy().cuda.runtime.ipcGetMemHandle(self._memory.ptr))

    def put(
        self, backend: CudaBackend, start: int, array: Any, index: int, stream: CudaStream
    ) -> None:
        """Queue a copy of `array`, in C order, to offset `start` on a stream of the slab's GPU."""
        with cupy().cuda.Device(index), device_errors():
            packed = backend.packed(array)
            place = cupy().cuda.MemoryPointer(self._memory, start)
            place.copy_from_device_async(packed.data, packed.nbytes, stream.native)

    def free(self) -> None:
        """Free the memory; no process may have it open, and no copy to it may be pending."""
        with cupy().cuda.Device(self._index), device_errors():
            self._memory = None


class OpenedSlab:
    """Another process's slab, opened on a device of this process.

    `close` unmaps it when no copy reads it any more.

    Raises  KernelError for an invalid handle; DeviceError if the memory is smaller than size
    Thread  any
    """

    def __init__(self, backend: CudaBackend, index: int, handle: bytes, size: int) -> None:
        self._backend, self._index, self.size = backend, index, size
        # Guards the two attributes below.
        self._lock = threading.Lock()
        self._readers = 0
        self._is_closed = False
        runtime = cupy().cuda.runtime
        with cupy().cuda.Device(index), device_errors():
            self._address = int(runtime.ipcOpenMemHandle(handle))
            steps = [*range(0, size, SLAB_STEP), size - 1]
            kinds = {runtime.pointerGetAttributes(self._address + at).type for at in steps}
        if kinds != {_OF_A_DEVICE}:
            # The owner sent a wrong size. A copy from beyond the end of the memory would make this
            # process's GPU context unusable.
            self.close()
            raise DeviceError(f"the memory that was opened has no {size} bytes")

    def copy_out(
        self, wanted: Sequence[tuple[int, tuple[int, ...], np.dtype[Any]]], index: int
    ) -> tuple[list[Any], CudaStream]:
        """Queue copies from the slab to new arrays; return the arrays and the stream.

        `wanted` lists offset, shape and dtype of each array. The copies are on the current stream
        of device `index`. The caller queues `done_reading` after them.

        Raises  DeviceError for a closed slab
        """
        with self._lock:
            if self._is_closed:
                raise DeviceError("the memory was closed: the worker that has it was lost")
            self._readers += 1
        stream = self._backend.current_stream(index)
        found = []
        cuda = cupy().cuda
        try:
            with cupy().cuda.Device(index), device_errors():
                for start, shape, dtype in wanted:
                    made = cupy().empty(shape, dtype)
                    memory = cuda.UnownedMemory(
                        self._address + start, made.nbytes, self, self._index
                    )
                    source = cuda.MemoryPointer(memory, 0)
                    made.data.copy_from_device_async(source, made.nbytes, stream.native)
                    found.append(made)
        except BaseException:
            # Copies that were queued before the failure may still run, so `done_reading` is queued.
            stream.launch_host_function(self.done_reading)
            raise
        return found, stream

    def done_reading(self) -> None:
        """Record that the copies of one copy_out are done, and unmap the slab if it is closed."""
        with self._lock:
            self._readers -= 1
            is_last = self._is_closed and not self._readers
        if is_last:
            self._unmap()

    def close_if_idle(self) -> bool:
        """Unmap the slab unless a copy reads it; return whether the slab is now closed."""
        with self._lock:
            if self._is_closed or self._readers:
                return self._is_closed
            self._is_closed = True
        self._unmap()
        return True

    def close(self) -> None:
        """Unmap the slab, now or after the last copy; further calls do nothing."""
        with self._lock:
            is_last = not self._is_closed and not self._readers
            self._is_closed = True
        if is_last:
            self._unmap()

    def _unmap(self) -> None:
        with cupy().cuda.Device(self._index), device_errors():
            cupy().cuda.runtime.ipcCloseMemHandle(self._address)


class OpenedEvents:
    """Events of one other process. Each event is opened only once.

    Thread  any
    """

    def __init__(self, open_event: Callable[[int, bytes], CudaEvent], most: int) -> None:
        self._open, self._most = open_event, most
        self._lock = threading.Lock()
        self._known: dict[tuple[int, bytes], CudaEvent] = {}

    def get(self, index: int, handle: bytes) -> CudaEvent:
        """Return the event with this handle, opened on a device of this process.

        Raises  KernelError for an invalid handle; DeviceError for too many events
        """
        with self._lock:
            known = self._known.get((index, handle))
            if known is None:
                if len(self._known) == self._most:
                    raise DeviceError(f"more than {self._most} events of one worker")
                known = self._known[index, handle] = self._open(index, handle)
        return known
