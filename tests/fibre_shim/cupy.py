"""What fastdist uses of CuPy, on the CPU: NumPy's memory, and kernels run by fibres at once.

So the Python between the backend and the kernels is tested on machines without a GPU. Nothing is
late here: the order of streams is the business of sim, and of the tests marked gpu.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, Self

import numpy as np

from fastdist.kernels.cuda.launch import Struct
from tests.fibre_shim.driver import run_text

__version__ = "made of fibres"
DEVICES = 2


class CUDARuntimeError(RuntimeError):
    pass


class CUDADriverError(RuntimeError):
    pass


class OutOfMemoryError(MemoryError):
    pass


class _State(threading.local):
    def __init__(self) -> None:
        self.device = 0
        self.streams = [[null] for _ in range(DEVICES)]


class Device:
    def __init__(self, number: int) -> None:
        self.id = number
        self._before: list[int] = []

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and self.id == other.id

    def __hash__(self) -> int:
        return self.id

    def __enter__(self) -> Self:
        self._before.append(state.device)
        state.device = self.id
        return self

    def __exit__(self, *_: object) -> None:
        state.device = self._before.pop()

    def synchronize(self) -> None:
        pass


class Event:
    done = True

    def __init__(self, block: bool = False, disable_timing: bool = False) -> None:
        self.device_id = state.device
        self.recorded_s = 0.0

    def record(self, stream: Stream | None = None) -> None:
        stream = stream or state.streams[state.device][-1]
        assert stream.device_id in (-1, self.device_id), "an event of another device"
        self.recorded_s = time.perf_counter()

    def synchronize(self) -> None:
        pass


class Stream:
    done = True
    _made = 0

    def __init__(self, null: bool = False, non_blocking: bool = False) -> None:
        self.device_id = -1 if null else state.device
        Stream._made += not null
        self.ptr = 0 if null else Stream._made

    def __enter__(self) -> Self:
        assert self.device_id in (-1, state.device), "a stream of another device"
        state.streams[state.device].append(self)
        return self

    def __exit__(self, *_: object) -> None:
        state.streams[state.device].pop()

    def wait_event(self, event: Event) -> None:
        assert isinstance(event, Event)

    def synchronize(self) -> None:
        pass


null = Stream(null=True)
state = _State()


class Memory:
    """Memory of the pool; `free_bytes` limits what all of it may hold."""

    free_bytes = 1 << 40

    def __init__(self, size: int) -> None:
        if size > Memory.free_bytes:
            raise OutOfMemoryError(f"{size} bytes are more than {Memory.free_bytes}")
        Memory.free_bytes -= size
        # 16 more, for the pool's memory is aligned.
        self._bytes = np.full(size + 16, 0xF7, np.uint8)
        self.size, self.device_id = size, state.device
        self.ptr = -(-self._bytes.__array_interface__["data"][0] // 16) * 16

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
        seen(self, (size,), np.dtype(np.uint8), (1,))[...] = seen(
            source, (size,), np.dtype(np.uint8), (1,)
        )


def seen(
    start: MemoryPointer, shape: Sequence[int], dtype: np.dtype, strides: Sequence[int]
) -> np.ndarray:
    """Return NumPy's view of memory, which does not keep it alive."""
    described = {
        "version": 3,
        "shape": tuple(shape),
        "typestr": dtype.str,
        "strides": tuple(strides),
        "data": (start.ptr, False),
    }
    # The interface knows of bfloat16 no more than its size.
    return np.asarray(SimpleNamespace(__array_interface__=described)).view(dtype)


class ndarray:
    def __init__(
        self,
        shape: Sequence[int],
        dtype: np.dtype,
        memptr: MemoryPointer | None = None,
        strides: Sequence[int] | None = None,
    ) -> None:
        plain = np.lib.stride_tricks.as_strided(np.empty(1, dtype), shape, strides or None)
        if strides is None:
            plain = np.empty(shape, dtype)
        self.data = allocator[0](plain.nbytes) if memptr is None else memptr
        self.device = self.data.device
        self.host = seen(self.data, shape, plain.dtype, plain.strides)
        for name in ("shape", "dtype", "strides", "ndim", "size", "nbytes", "flags"):
            setattr(self, name, getattr(self.host, name))

    def _view(self, host: np.ndarray) -> ndarray:
        offset = host.__array_interface__["data"][0] - self.data.ptr
        return ndarray(host.shape, host.dtype, self.data + offset, host.strides)

    def __getitem__(self, index: Any) -> ndarray:
        return self._view(self.host[index])

    def __setitem__(self, index: Any, value: ndarray) -> None:
        self.host[index] = value.host

    def fill(self, value: float) -> None:
        self.host.fill(value)

    def astype(self, dtype: Any) -> ndarray:
        return array(self.host.astype(dtype))

    def transpose(self, axes: Sequence[int]) -> ndarray:
        return self._view(self.host.transpose(axes))

    def reshape(self, shape: Sequence[int]) -> ndarray:
        host = self.host.reshape(shape)
        return self._view(host) if np.shares_memory(host, self.host) else array(host)


allocator: list[Callable[[int], MemoryPointer]] = [lambda size: MemoryPointer(Memory(size), 0)]


def empty(shape: Sequence[int], dtype: np.dtype) -> ndarray:
    return ndarray(shape, np.dtype(dtype))


def array(values: np.ndarray, order: str = "C") -> ndarray:
    made = ndarray(values.shape, values.dtype)
    made.host[...] = values
    return made


def asnumpy(values: ndarray) -> np.ndarray:
    return values.host.copy()


def ascontiguousarray(values: ndarray) -> ndarray:
    return values if values.flags.c_contiguous else array(values.host)


def broadcast_to(values: ndarray, shape: Sequence[int]) -> ndarray:
    return values._view(np.broadcast_to(values.host, shape))


def argsort(x: ndarray, axis: int = -1) -> ndarray:
    return array(np.argsort(x.host, axis, kind="stable"))


def take(x: ndarray, index: ndarray) -> ndarray:
    return array(np.take(x.host, index.host))


def matmul(x: ndarray, y: ndarray, out: ndarray | None = None) -> ndarray:
    product = np.matmul(x.host, y.host)
    if product.shape == (1, 1) and product.dtype == np.float16:
        # As CuPy does it: the products are rounded before they are added.
        product[...] = (x.host.ravel() * y.host.ravel()).sum(dtype=np.float32)
    if out is None:
        return array(product)
    out.host[...] = product
    return out


class RawModule:
    def __init__(self, code: str, options: Sequence[str]) -> None:
        self._code = code

    def get_function(self, name: str) -> Callable[..., None]:
        def call(grid: Sequence[int], block: Sequence[int], args: Sequence[Any]) -> None:
            run_text(self._code, name, grid, block, [_argument(arg) for arg in args])

        return call


def _argument(arg: Any) -> Any:
    if isinstance(arg, ndarray):
        assert arg.device.id == state.device, "an array of another device"
        return arg.host
    # CuPy passes NumPy's arrays of size one by value, and no others.
    assert not isinstance(arg, np.ndarray) or arg.size == 1
    return Struct(arg) if isinstance(arg, np.ndarray) else arg


def _set_allocator(allocate: Callable[[int], MemoryPointer]) -> None:
    allocator[0] = allocate


cuda = SimpleNamespace(
    Device=Device,
    Event=Event,
    Stream=Stream,
    UnownedMemory=UnownedMemory,
    MemoryPointer=MemoryPointer,
    memory=SimpleNamespace(OutOfMemoryError=OutOfMemoryError),
    driver=SimpleNamespace(CUDADriverError=CUDADriverError),
    runtime=SimpleNamespace(
        CUDARuntimeError=CUDARuntimeError,
        getDevice=lambda: state.device,
        getDeviceCount=lambda: DEVICES,
        getDeviceProperties=lambda number: {"name": b"fibres"},
        driverGetVersion=lambda: 12080,
        runtimeGetVersion=lambda: 12060,
    ),
    get_elapsed_time=lambda start, end: (end.recorded_s - start.recorded_s) * 1e3,
    get_current_stream=lambda number: state.streams[number][-1],
    get_allocator=lambda: allocator[0],
    set_allocator=_set_allocator,
)
