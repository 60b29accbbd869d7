"""One simulated device: its streams, its memory and its arrays."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Final, NoReturn

import numpy as np
from numpy.lib.array_utils import byte_bounds
from numpy.lib.stride_tricks import as_strided

from fastdist.core.errors import DeviceError
from fastdist.instrumentation.memory_meter import memory_meter
from fastdist.instrumentation.time_ranges import time_ranges

from .allocator import Block, CachingAllocator
from .faults import Behaviour
from .stream import Currents, SimStream

POOL_STREAMS: Final = 32


class Storage:
    """The owner of a block. It frees the block when no array uses it, even if queued work does."""

    __slots__ = ("__weakref__", "block", "device", "other_streams")

    def __init__(self, device: SimDevice, block: Block) -> None:
        self.device = device
        self.other_streams: set[SimStream] = set()
        self.block = block

    def __del__(self) -> None:
        # The attribute is missing if the constructor failed.
        if hasattr(self, "block"):
            self.device.allocator.release(self.block, self.other_streams)


def _counted_storage(device: SimDevice, block: Block) -> Storage:
    storage = Storage(device, block)
    memory_meter.count_block(storage, block.memory.nbytes)
    return storage


# The function that creates a Storage; replaced by `_counted_storage` while a profiler counts bytes.
_make_storage: Callable[[SimDevice, Block], Storage] = Storage


class SimDevice:
    """A simulated device; work goes to the calling thread's current stream."""

    def __init__(self, index: int, behaviour: Behaviour, currents: Currents) -> None:
        self.index = index
        self.allocator = CachingAllocator(index, behaviour)
        self._behaviour = behaviour
        self._currents = currents
        self._default = SimStream(index, 0, behaviour, currents)
        # Only for copies to the CPU, so that other work does not wait for these copies.
        self.copy_stream = SimStream(index, POOL_STREAMS + 1, behaviour, currents)
        # Guards _pool and _next.
        self._pool_lock = threading.Lock()
        self._pool: list[SimStream] = []
        self._next = 0

    def empty(self, shape: Sequence[int], dtype: np.dtype[Any]) -> SimArray:
        """Return an array filled with poison."""
        shape = tuple(shape)
        nbytes = prod(shape) * dtype.itemsize
        storage = _make_storage(self, self.allocator.allocate(nbytes, self.current_stream()))
        view: np.ndarray = np.ndarray(shape, dtype, storage.block.memory)
        return SimArray(storage, view)

    def current_stream(self) -> SimStream:
        """Return the stream that this thread entered last, or the default stream."""
        return self._currents.innermost(self.index) or self._default

    def take_stream(self) -> SimStream:
        """Return a side stream. After 32 streams, return the first again, and so on, as PyTorch."""
        with self._pool_lock:
            if len(self._pool) < POOL_STREAMS:
                number = len(self._pool) + 1
                self._pool.append(SimStream(self.index, number, self._behaviour, self._currents))
                return self._pool[-1]
            self._next += 1
            return self._pool[(self._next - 1) % POOL_STREAMS]

    def streams(self) -> list[SimStream]:
        """Return all existing streams."""
        with self._pool_lock:
            return [self._default, self.copy_stream, *self._pool]

    def synchronize(self) -> None:
        """Wait for every stream, then raise the first error of any stream."""
        first: DeviceError | None = None
        for stream in self.streams():
            try:
                stream.synchronize()
            except DeviceError as error:
                first = first or error
        if first is not None:
            raise first

    def stop(self, together: object = None) -> None:
        """Stop all streams, and drop their queued work.

        together: see Note [Streams that end together].
        """
        together = together or object()
        for stream in self.streams():
            stream.stop(together)


class SimArray:
    """Memory of a simulated device, with NumPy's metadata and views, but no access to values."""

    __slots__ = ("_memory", "_storage")
    __array_ufunc__ = None
    __hash__ = object.__hash__

    def __init__(self, storage: Storage, memory: np.ndarray) -> None:
        self._storage = storage
        self._memory = memory

    @property
    def shape(self) -> tuple[int, ...]:
        return self._memory.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._memory.dtype

    @property
    def strides(self) -> tuple[int, ...]:
        return self._memory.strides

    @property
    def ndim(self) -> int:
        return self._memory.ndim

    @property
    def size(self) -> int:
        return self._memory.size

    @property
    def nbytes(self) -> int:
        return self._memory.nbytes

    @property
    def device(self) -> SimDevice:
        return self._storage.device

    @property
    def storage(self) -> Storage:
        return self._storage

    @property
    def address(self) -> int:
        """The address of the first element. It only identifies memory: do not read there."""
        return int(self._memory.__array_interface__["data"][0])

    def reshape(self, shape: Sequence[int], /) -> SimArray:
        memory = np.reshape(self._memory, shape)
        if memory.size == 0 or np.may_share_memory(memory, self._memory):
            return self._view(memory)
        # No view can have that shape, so NumPy has copied the memory, perhaps before queued work
        # wrote to it. Instead of NumPy's copy, return a copy that the device makes in stream order.
        fresh = self.device.empty(self.shape, self.dtype)
        self.device.current_stream().launch("copy", np.copyto, fresh._memory, self._memory)
        return fresh._view(np.reshape(fresh._memory, shape))

    def transpose(self, axes: Sequence[int], /) -> SimArray:
        return self._view(self._memory.transpose(axes))

    def view(self, dtype: np.dtype[Any], /) -> SimArray:
        """Return the same bytes as elements of another dtype."""
        return self._view(self._memory.view(dtype))

    def __getitem__(self, index: Any, /) -> SimArray:
        parts = index if isinstance(index, tuple) else (index,)
        for part in parts:
            if isinstance(part, (bool, list, np.ndarray, SimArray)):
                raise TypeError(f"{self!r} takes integers, slices, ... and None, not {part!r}")
        # With an Ellipsis, NumPy returns a view even if all axes are indexed.
        return self._view(self._memory[parts if Ellipsis in parts else (*parts, Ellipsis)])

    def expand(self, shape: Sequence[int]) -> SimArray:
        """Return a view broadcast to shape."""
        return self._view(np.broadcast_to(self._memory, shape))

    def as_strided(
        self, shape: Sequence[int], strides_bytes: Sequence[int], offset_bytes: int
    ) -> SimArray:
        """Return a view of the block, `offset_bytes` after this array's start. It may use memory of
        the block that this array does not use.
        """
        block = self._storage.block.memory
        start = self.address - int(block.__array_interface__["data"][0]) + offset_bytes
        if not 0 <= start <= block.nbytes - self.dtype.itemsize:
            raise DeviceError(
                f"as_strided: offset {offset_bytes} of {self!r} is outside its memory"
            )
        first = block[start : start + self.dtype.itemsize].view(self.dtype)
        view = as_strided(first, shape, strides_bytes)
        (low, high), (block_low, block_high) = byte_bounds(view), byte_bounds(block)
        if view.size and not block_low <= low <= high <= block_high:
            raise DeviceError(
                f"as_strided: {tuple(shape)} by {tuple(strides_bytes)} leaves {self!r}'s memory"
            )
        return self._view(view)

    def __repr__(self) -> str:
        return f"<SimArray of sim:{self.device.index}, shape {self.shape}, {self.dtype}>"

    def _view(self, memory: np.ndarray) -> SimArray:
        return SimArray(self._storage, memory)

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError(
            f"can't convert sim:{self.device.index} device type array to numpy: "
            f"the CPU cannot read {self!r}. "
            "Copy it to the CPU first: Tensor.cpu(), or Backend.to_numpy"
        )

    __array__ = __bool__ = __float__ = __int__ = __index__ = __iter__ = __len__ = _refuse
    __eq__ = __reduce_ex__ = __deepcopy__ = _refuse


def memory_of(array: SimArray) -> np.ndarray:
    """Return the NumPy array that holds the values. Only kernels on a stream may read it."""
    return array._memory


def _count_storages(is_wanted: bool) -> None:
    global _make_storage
    _make_storage = _counted_storage if is_wanted else Storage


time_ranges.watch("memory", _count_storages)
