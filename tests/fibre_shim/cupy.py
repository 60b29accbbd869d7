"""The part of CuPy that fastdist uses, on the CPU: memory is NumPy's, and CUDA threads are fibres.

A fibre is a user-space thread (see driver.py). With this shim, the Python code between the backend
and the kernels is tested on machines without a GPU. Work runs immediately. Only copies of pinned
memory, and of memory shared between processes (ipc.py), are delayed (streams.py). Tests on the
simulated device `sim`, and tests marked gpu, check the order of streams.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, ClassVar
from weakref import WeakSet, ref

import numpy as np

from fastdist.kernels.cuda.launch import Struct
from tests.fibre_shim import cufft, ipc
from tests.fibre_shim.driver import run_text
from tests.fibre_shim.operators import Operators, computed
from tests.fibre_shim.streams import (
    DEVICES,
    CUDARuntimeError,
    Device,
    Event,
    Stream,
    arrive,
    is_pending,
    late,
    queue,
    state,
)

__version__ = "made of fibres"


class CUDADriverError(RuntimeError):
    pass


class OutOfMemoryError(MemoryError):
    pass


# The cudaError_t that queries of events and streams return.
status = [0]


_NOT_READY = 600


def _queried(handle: int = 0) -> int:
    if status[0] == 0:
        arrive()
        if is_pending(handle):
            return _NOT_READY
    return status[0]


class Memory:
    """A block of the pool's memory; `free_bytes` is the size that may still be allocated."""

    free_bytes = 1 << 40
    _all: ClassVar[WeakSet[Memory]] = WeakSet()

    @classmethod
    def holds(cls, start: int, size: int) -> bool:
        """Return whether a range of bytes is inside memory that is in use."""
        return not size or any(
            one.ptr <= start and start + size <= one.ptr + one.size for one in list(cls._all)
        )

    def __init__(self, size: int) -> None:
        if size > Memory.free_bytes:
            raise OutOfMemoryError(f"{size} bytes are more than {Memory.free_bytes}")
        Memory.free_bytes -= size
        # Add 16 bytes, so that the address can be rounded up to a multiple of 16.
        self._bytes = np.full(size + 16, 0xF7, np.uint8)
        self.size, self.device_id = size, state.device
        self.ptr = -(-self._bytes.__array_interface__["data"][0] // 16) * 16

        Memory._all.add(self)

    def __del__(self) -> None:
        Memory.free_bytes += getattr(self, "size", 0)


class UnownedMemory:
    def __init__(self, ptr: int, size: int, owner: object, device_id: int) -> None:
        self.ptr, self.size, self.device_id, self._owner = ptr, size, device_id, owner


class MemoryPointer:
    def __init__(self, mem: Any, offset: int) -> None:
        self.mem, self.ptr = mem, mem.ptr + offset
        self.device = Device(mem.device_id)

    def __add__(self, offset: int) -> MemoryPointer:
        return MemoryPointer(self.mem, self.ptr - self.mem.ptr + offset)

    def copy_from_device_async(self, source: MemoryPointer, size: int, stream: Stream) -> None:
        to, given = (seen(one, (size,), np.dtype(np.uint8), (1,)) for one in (self, source))
        if shared := ipc.mappings_at(self.ptr, source.ptr):
            late(lambda kept=(self.mem, source.mem, shared): np.copyto(to, given), stream)
            return
        queue(lambda: np.copyto(to, given))

    def copy_from_host_async(self, source: int, size: int, stream: Stream) -> None:
        to, given = seen(self, (size,), np.dtype(np.uint8), (1,)), PinnedMemory.seen(source, size)
        if given is None:
            _copy_at_once(to, source, size, stream)
            return
        # Keep the memory until the copy is done. Otherwise the pool would reuse it for later work.
        late(lambda mem=self.mem: np.copyto(to, given), stream)

    def copy_to_host_async(self, target: int, size: int, stream: Stream) -> None:
        given, to = seen(self, (size,), np.dtype(np.uint8), (1,)), PinnedMemory.seen(target, size)
        if to is None:
            _copy_at_once(target, given, size, stream)
            return
        owner = PinnedMemory.owner_of(target)

        def copy(mem: Any = self.mem) -> None:
            assert owner() is not None, "a copy arrives in pinned memory that was given back"
            np.copyto(to, given)

        late(copy, stream)


def _copy_at_once(to: Any, given: Any, size: int, stream: Stream) -> None:
    """Copy from or to CPU memory that is not pinned, given by its address.

    CUDA returns when such a copy is done.
    """
    if stream.captured is not None:
        raise CUDARuntimeError(900)
    stream.finish()
    both = [
        seen(SimpleNamespace(ptr=one), (size,), np.dtype(np.uint8), (1,))
        if isinstance(one, int)
        else one
        for one in (to, given)
    ]
    np.copyto(*both)


def seen(start: Any, shape: Sequence[int], dtype: np.dtype, strides: Sequence[int]) -> np.ndarray:
    """Return a NumPy view of memory; the view does not keep the memory alive."""
    described = {
        "version": 3,
        "shape": tuple(shape),
        "typestr": _type_string(dtype),
        "strides": tuple(strides),
        "data": (start.ptr, False),
    }
    # The array interface gives only the size of bfloat16, so set the dtype afterwards.
    return np.asarray(SimpleNamespace(__array_interface__=described)).view(dtype)


def _type_string(dtype: np.dtype) -> str:
    """Return the array interface's name of a dtype; for float8 types it only gives the size."""
    return f"|V{dtype.itemsize}" if dtype.name.startswith("float8") else dtype.str


class PinnedMemory:
    """Pinned memory of the CPU. When it is freed, it is overwritten, as by a next owner.

    A delayed copy keeps the bytes alive, but not this object. It therefore never writes to memory
    that the process has reused.
    """

    _all: ClassVar[WeakSet[PinnedMemory]] = WeakSet()

    def __init__(self, size: int) -> None:
        self._bytes = np.full(size, 0xF7, np.uint8)
        self.ptr = self._bytes.__array_interface__["data"][0]
        PinnedMemory._all.add(self)

    @classmethod
    def owner_of(cls, address: int) -> Callable[[], PinnedMemory | None]:
        """Return a function that returns the pinned memory at an address, or None."""
        for one in list(cls._all):
            if one.ptr <= address < one.ptr + len(one._bytes):
                return ref(one)
        return lambda: None

    @classmethod
    def seen(cls, address: int, size: int) -> np.ndarray | None:
        """Return the bytes at an address as a view that keeps them alive; None if not pinned."""
        one = cls.owner_of(address)()
        if one is None:
            return None
        start = address - one.ptr
        assert start + size <= len(one._bytes), "a copy beyond the end of pinned memory"
        return one._bytes[start : start + size]

    def __del__(self) -> None:
        self._bytes.fill(0xF7)


# (stream, other): `stream` of a consumer waited for `other` before the consumer got memory.
waited: list[tuple[int, int]] = []


class ndarray(Operators):
    def __init__(
        self,
        shape: Sequence[int],
        dtype: np.dtype,
        memptr: MemoryPointer | None = None,
        strides: Sequence[int] | None = None,
    ) -> None:
        one = np.empty(1, dtype).view(_type_string(np.dtype(dtype)))
        plain = np.lib.stride_tricks.as_strided(one, shape, strides or None).view(dtype)
        if strides is None:
            plain = np.empty(shape, dtype)
        self.data = allocator[0](plain.nbytes) if memptr is None else memptr
        self.device = self.data.device
        self.host = seen(self.data, shape, plain.dtype, plain.strides)
        for name in ("shape", "dtype", "strides", "ndim", "size", "nbytes", "flags"):
            setattr(self, name, getattr(self.host, name))

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.data.ptr, False),
            "strides": None if self.flags.c_contiguous else self.strides,
            "version": 3,
            "stream": state.streams[self.device.id][-1].ptr or 1,
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, self.device.id

    def __dlpack__(
        self, *, stream: int | None = None, max_version: tuple[int, int] | None = None
    ) -> Any:
        # As in CuPy, the consumer's stream waits for the current stream of this device.
        if stream not in (None, -1):
            waited.append((stream, state.streams[self.device.id][-1].ptr))
        return SimpleNamespace(_array=self)  # a stand-in for a capsule, which one consumer takes

    def _view(self, host: np.ndarray) -> ndarray:
        offset = host.__array_interface__["data"][0] - self.data.ptr
        return ndarray(host.shape, host.dtype, self.data + offset, host.strides)

    def __getitem__(self, index: Any) -> ndarray:
        return self._view(self.host[index])

    def __setitem__(self, index: Any, value: ndarray) -> None:
        queue(lambda: self.host.__setitem__(index, value.host))

    @property
    def real(self) -> ndarray:
        return self._view(self.host.real)

    def swapaxes(self, one: int, other: int) -> ndarray:
        return self._view(self.host.swapaxes(one, other))

    def fill(self, value: float) -> None:
        queue(lambda: self.host.fill(value))

    def astype(self, dtype: Any) -> ndarray:
        made = ndarray(self.shape, np.dtype(dtype))
        queue(lambda: np.copyto(made.host, self.host, casting="unsafe"))
        return made

    def view(self, dtype: Any) -> ndarray:
        assert self.flags.c_contiguous, "CuPy does not split axes with gaps"
        return self._view(self.host.view(dtype))

    def transpose(self, axes: Sequence[int]) -> ndarray:
        return self._view(self.host.transpose(axes))

    def reshape(self, shape: Sequence[int]) -> ndarray:
        host = self.host.reshape(shape)
        if np.shares_memory(host, self.host):
            return self._view(host)
        made = ndarray(host.shape, host.dtype)
        queue(lambda: np.copyto(made.host, self.host.reshape(shape)))
        return made


allocator: list[Callable[[int], MemoryPointer]] = [lambda size: MemoryPointer(Memory(size), 0)]


def empty(shape: Sequence[int], dtype: np.dtype) -> ndarray:
    return ndarray(shape, np.dtype(dtype))


def array(values: np.ndarray, order: str = "C") -> ndarray:
    # CuPy copies through temporary memory, which has another owner when the graph is replayed.
    assert state.streams[state.device][-1].captured is None, "a copy that a graph cannot keep"
    made = ndarray(values.shape, values.dtype)
    made.host[...] = values
    return made


def from_dlpack(owner: Any) -> ndarray:
    kind, index = owner.__dlpack_device__()
    assert kind == 2, "memory of a GPU"
    with Device(index):
        handed = owner.__dlpack__(stream=state.streams[index][-1].ptr or 1)
        given, handed._array = handed._array, None
        return _over(given, given.data.ptr, given.shape, given.dtype, given.strides, index)


def asarray(owner: Any) -> ndarray:
    if isinstance(owner, np.ndarray | np.generic):
        return array(np.asarray(owner))
    told = owner.__cuda_array_interface__
    shape, dtype = told["shape"], np.dtype(told["typestr"])
    if told.get("stream") is not None:
        waited.append((state.streams[state.device][-1].ptr or 1, told["stream"]))
    strides = told.get("strides") or np.empty(shape, dtype).strides
    return _over(owner, told["data"][0], shape, dtype, strides, state.device)


def _over(
    owner: Any, address: int, shape: Any, dtype: np.dtype, strides: Any, index: int
) -> ndarray:
    memory = UnownedMemory(address, 0, owner, index)
    return ndarray(shape, dtype, MemoryPointer(memory, 0), strides)


def asnumpy(values: ndarray) -> np.ndarray:
    stream = state.streams[values.device.id][-1]
    if stream.captured is not None:
        raise CUDARuntimeError(900)
    stream.finish()
    return values.host.copy()


def ascontiguousarray(values: ndarray) -> ndarray:
    if values.flags.c_contiguous:
        return values
    made = ndarray(values.shape, values.dtype)
    queue(lambda: np.copyto(made.host, values.host))
    return made


def broadcast_to(values: ndarray, shape: Sequence[int]) -> ndarray:
    return values._view(np.broadcast_to(values.host, shape))


def diagonal(values: ndarray, axis1: int, axis2: int) -> ndarray:
    return values._view(np.diagonal(values.host, axis1=axis1, axis2=axis2))


inf, nan = np.inf, np.nan
fft = cufft.transforms(ndarray)
_computed = functools.partial(functools.partial, computed, ndarray)
abs, exp, log, isfinite = map(_computed, (np.abs, np.exp, np.log, np.isfinite))
arange, eye, maximum, where = map(_computed, (np.arange, np.eye, np.maximum, np.where))
take_along_axis, tril, triu = map(_computed, (np.take_along_axis, np.tril, np.triu))


def matmul(x: ndarray, y: ndarray, out: ndarray | None = None) -> ndarray:
    if out is None:
        batch = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
        out = ndarray((*batch, x.shape[-2], y.shape[-1]), np.result_type(x.dtype, y.dtype))
    made = out

    def multiply() -> None:
        if made.shape == (1, 1) and made.dtype == np.float16:
            # As in CuPy, the products are rounded before they are added.
            made.host[...] = (x.host.ravel() * y.host.ravel()).sum(dtype=np.float32)
        else:
            np.copyto(made.host, np.matmul(x.host, y.host))

    queue(multiply)
    return made


# The seed of the order in which fibres run: one of driver.SEEDS, or any other number.
schedule = [0]


class RawModule:
    def __init__(self, code: str, options: Sequence[str]) -> None:
        self._code = code

    def get_function(self, name: str) -> Callable[..., None]:
        def call(grid: Sequence[int], block: Sequence[int], args: Sequence[Any]) -> None:
            given = [_argument(arg) for arg in args]
            seed = schedule[0]

            def run() -> None:
                run_text(self._code, name, grid, block, given, seed=seed)

            if state.streams[state.device][-1].captured is None:
                queue(run)
                return
            spans = [(arg.data.ptr, arg.nbytes) for arg in args if isinstance(arg, ndarray)]
            spans = [span for span in spans if Memory.holds(*span)]

            def replay() -> None:
                assert all(Memory.holds(*span) for span in spans), "memory of the pool"
                run()

            queue(replay)

        return call


def _argument(arg: Any) -> Any:
    if isinstance(arg, ndarray):
        assert arg.device.id == state.device, "an array of another device"
        return arg.host
    # CuPy passes a NumPy array only if it has one element, and then by value.
    assert not isinstance(arg, np.ndarray) or arg.size == 1
    return Struct(arg) if isinstance(arg, np.ndarray) else arg


class MemoryPool:
    """The default pool, or a private pool; the memory of a pool lives as long as the pool."""

    def __init__(self) -> None:
        self.limits: dict[int, float] = {}
        self._given: list[Memory] = []

    @property
    def num_given(self) -> int:
        return len(self._given)

    def malloc(self, size: int) -> MemoryPointer:
        self._given.append(Memory(size))
        return MemoryPointer(self._given[-1], 0)

    def total_bytes(self) -> int:
        return (1 << 40) - Memory.free_bytes

    def free_all_blocks(self) -> None:
        pass

    def set_limit(self, size: int | None = None, fraction: float | None = None) -> None:
        # As in CuPy, a size or a fraction of 0 removes the limit.
        self.limits[state.device] = (size or 0) / (1 << 40) or fraction or 0


_default_pool = MemoryPool()


def get_default_memory_pool() -> MemoryPool:
    return _default_pool


# The compute dtype of products, by dtype.
compute_types: dict[Any, int] = {}
_core = SimpleNamespace(
    set_compute_type=lambda dtype, kind: compute_types.update({dtype: kind}),
    _routines_linalg=SimpleNamespace(COMPUTE_TYPE_DEFAULT=0, COMPUTE_TYPE_TF32=5),
)


def _set_allocator(allocate: Callable[[int], MemoryPointer]) -> None:
    allocator[0] = allocate


# For tests: the calls of CUDA's profiler.
profiler: list[str] = []
cuda = SimpleNamespace(
    device=SimpleNamespace(get_cublas_handle=lambda: 0x88, get_cusolver_handle=lambda: 0x99),
    Device=Device,
    Event=Event,
    Stream=Stream,
    Memory=ipc.Memory,
    MemoryPool=MemoryPool,
    UnownedMemory=UnownedMemory,
    MemoryPointer=MemoryPointer,
    alloc_pinned_memory=PinnedMemory,
    memory=SimpleNamespace(OutOfMemoryError=OutOfMemoryError),
    driver=SimpleNamespace(CUDADriverError=CUDADriverError),
    runtime=SimpleNamespace(
        CUDARuntimeError=CUDARuntimeError,
        getDevice=lambda: state.device,
        getDeviceCount=lambda: DEVICES,
        getDeviceProperties=lambda number: {
            "name": b"fibres",
            "major": 9,
            "minor": 0,
            "totalGlobalMem": 1 << 40,
            "multiProcessorCount": 2,
            "warpSize": 32,
            "uuid": bytes([number]) * 16,
            "l2CacheSize": 50 << 20,
        },
        eventQuery=_queried,
        streamQuery=lambda handle: _queried(),
        memGetInfo=lambda: (Memory.free_bytes, 1 << 40),
        deviceCanAccessPeer=lambda index, peer: 1,
        deviceGetPCIBusId=lambda number: f"0000:{number:02x}:00.0",
        **ipc.RUNTIME,
        profilerStart=lambda: profiler.append("start"),
        profilerStop=lambda: profiler.append("stop"),
        streamCreate=lambda: 0x77,
        streamDestroy=lambda handle: None,
        hostRegister=lambda address, size, flags: None,
        hostUnregister=lambda address: None,
        driverGetVersion=lambda: 12080,
        runtimeGetVersion=lambda: 12060,
    ),
    get_elapsed_time=lambda start, end: (end.recorded_s - start.recorded_s) * 1e3,
    get_current_stream=lambda number=-1: state.streams[state.device if number < 0 else number][-1],
    get_allocator=lambda: allocator[0],
    set_allocator=_set_allocator,
)
