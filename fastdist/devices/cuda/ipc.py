"""Memory of a GPU that other processes of the machine can open, and theirs that was opened here."""

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
# GPUs map memory in pieces of this size: a slab shares none with other memory, because a process
# that opens it sees whole pieces.
SLAB_STEP: Final = 2 << 20
_OF_A_DEVICE: Final = 2  # cudaMemoryTypeDevice


def uuid_of(backend: CudaBackend, index: int) -> bytes:
    """Return the id of a GPU in every process of the machine."""
    return bytes(backend.properties(index)["uuid"])[:UUID_BYTES]


def index_of_uuid(backend: CudaBackend, uuid: bytes) -> int | None:
    """Return the index of a GPU here; None if it is not visible."""
    indices = range(backend.device_count())
    return next((i for i in indices if uuid_of(backend, i) == uuid), None)


class Slab:
    """Memory of cudaMalloc's own, not of CuPy's pool: that may not be shared as a whole.

    Raises  KernelError where the GPU has no more, or gives no handle out
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
        """Queue, on a stream of the slab's device, a copy of an array of it, packed, to `start`."""
        with cupy().cuda.Device(index), device_errors():
            packed = backend.packed(array)
            place = cupy().cuda.MemoryPointer(self._memory, start)
            place.copy_from_device_async(packed.data, packed.nbytes, stream.native)

    def free(self) -> None:
        """Give it back to its GPU, when nobody has it open and nothing is on its way to it."""
        with cupy().cuda.Device(self._index), device_errors():
            self._memory = None


class OpenedSlab:
    """Another process's slab, on one of our devices; `close` unmaps it once no copy reads it.

    Raises  KernelError unless it is the handle of a living slab; DeviceError if that is smaller
    Thread  any
    """

    def __init__(self, backend: CudaBackend, index: int, handle: bytes, size: int) -> None:
        self._backend, self._index, self.size = backend, index, size
        # Guards the two below it.
        self._lock = threading.Lock()
        self._readers = 0
        self._is_closed = False
        runtime = cupy().cuda.runtime
        with cupy().cuda.Device(index), device_errors():
            self._address = int(runtime.ipcOpenMemHandle(handle))
            steps = [*range(0, size, SLAB_STEP), size - 1]
            kinds = {runtime.pointerGetAttributes(self._address + at).type for at in steps}
        if kinds != {_OF_A_DEVICE}:
            # A claim of its owner's, and a copy from beyond the end would cost us the GPU.
            self.close()
            raise DeviceError(f"the memory that was opened has no {size} bytes")

    def copy_out(
        self, wanted: Sequence[tuple[int, tuple[int, ...], np.dtype[Any]]], index: int
    ) -> tuple[list[Any], CudaStream]:
        """Return new arrays of a device, to which its current stream copies the data whose places
        `wanted` gives, and that stream. The caller queues `done_reading` behind the copies.

        Raises  DeviceError for a slab that is closed
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
            # Work that was queued before the failure may be under way.
            stream.launch_host_function(self.done_reading)
            raise
        return found, stream

    def done_reading(self) -> None:
        """Take note that the copies of one copy_out are done."""
        with self._lock:
            self._readers -= 1
            is_last = self._is_closed and not self._readers
        if is_last:
            self._unmap()

    def close_if_idle(self) -> bool:
        """Unmap it unless a copy reads it; return whether it is closed."""
        with self._lock:
            if self._is_closed or self._readers:
                return self._is_closed
            self._is_closed = True
        self._unmap()
        return True

    def close(self) -> None:
        """Unmap it, now or when the last copy is done; once."""
        with self._lock:
            is_last = not self._is_closed and not self._readers
            self._is_closed = True
        if is_last:
            self._unmap()

    def _unmap(self) -> None:
        with cupy().cuda.Device(self._index), device_errors():
            cupy().cuda.runtime.ipcCloseMemHandle(self._address)


class OpenedEvents:
    """Events of one other process, each opened once.

    Thread  any
    """

    def __init__(self, open_event: Callable[[int, bytes], CudaEvent], most: int) -> None:
        self._open, self._most = open_event, most
        self._lock = threading.Lock()
        self._known: dict[tuple[int, bytes], CudaEvent] = {}

    def get(self, index: int, handle: bytes) -> CudaEvent:
        """Return the event of a handle, on one of our devices.

        Raises  KernelError if it is not the handle of a living event; DeviceError for too many
        """
        with self._lock:
            known = self._known.get((index, handle))
            if known is None:
                if len(self._known) == self._most:
                    raise DeviceError(f"more than {self._most} events of one worker")
                known = self._known[index, handle] = self._open(index, handle)
        return known
