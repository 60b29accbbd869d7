"""A replacement of CuPy that does nothing: memory is a number, and launches are only counted.

With this replacement, the Python overhead of a call on `cuda` can be timed on any machine. A real
call also takes the time of CuPy itself (an allocation and a launch, in C) and of the GPU. No values
are computed.
"""

from __future__ import annotations

import functools
import itertools
import math
import os
import sys
import threading
from collections.abc import Callable, Sequence
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple, Self

import numpy as np

__version__ = "free"

launches = itertools.count()
"""Advances with each launch, and each product of cuBLAS."""


class Device(int):
    """A device. There is only one, and it is current in every thread."""

    id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def synchronize(self) -> None:
        """Do nothing."""


class Event:
    """An event that is always complete."""

    ptr = 1

    def __init__(self, block: bool = False, disable_timing: bool = False) -> None:
        pass

    def record(self, stream: Any = None) -> None:
        """Do nothing."""

    def synchronize(self) -> None:
        """Do nothing."""


class Stream:
    """A stream without work; the default stream is the null stream."""

    def __init__(
        self, null: bool = False, non_blocking: bool = False, priority: int | None = None
    ) -> None:
        self.ptr = 0 if null else id(self)

    def __enter__(self) -> Self:
        _current.streams.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        _current.streams.pop()

    def wait_event(self, event: Event) -> None:
        """Do nothing."""

    def synchronize(self) -> None:
        """Do nothing."""


_NULL = Stream(null=True)


class _Current(threading.local):
    def __init__(self) -> None:
        self.streams = [_NULL]


_current = _Current()


class UnownedMemory:
    """Memory that another object owns."""

    __slots__ = ("_owner", "device_id", "ptr", "size")

    def __init__(self, ptr: int, size: int, owner: object, device_id: int) -> None:
        self.ptr, self.size, self.device_id, self._owner = ptr, size, device_id, owner


class MemoryPointer:
    """An address in memory."""

    __slots__ = ("mem", "ptr")
    device = Device(0)

    def __init__(self, mem: Any, offset: int) -> None:
        self.mem, self.ptr = mem, mem.ptr + offset

    def __add__(self, offset: int) -> MemoryPointer:
        return MemoryPointer(self.mem, self.ptr - self.mem.ptr + offset)


_places = itertools.count(1 << 20, 1 << 20)


class _OneDevice(NamedTuple):
    """The size of an allocation, on the only device."""

    size: int
    device_id: int = 0


class _Piece:
    """An allocation of the pool: each has its own address range of up to 1 MiB."""

    __slots__ = ("mem", "ptr")
    device = MemoryPointer.device

    def __init__(self, size_bytes: int) -> None:
        self.ptr = next(_places)
        self.mem = _OneDevice(size_bytes)


_allocator: list[Callable[[int], Any]] = [_Piece]


@functools.cache
def _c_order(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    steps, step = list[int](), itemsize
    for length in reversed(shape):
        steps.append(step)
        step *= length
    return tuple(reversed(steps))


_IN_C_ORDER, _OTHERWISE = (SimpleNamespace(c_contiguous=is_so) for is_so in (True, False))


class ndarray:
    """An array's shape, strides, dtype and address; other attributes are computed on access."""

    device = MemoryPointer.device

    def __init__(
        self,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        memptr: MemoryPointer | None = None,
        strides: tuple[int, ...] | None = None,
    ) -> None:
        self.shape, self.dtype, self.flags = shape, dtype, _IN_C_ORDER
        self.size = size = math.prod(shape)
        self.data = _allocator[0](size * dtype.itemsize) if memptr is None else memptr
        self.strides = in_order = _c_order(shape, dtype.itemsize)
        if strides is not None and strides != in_order:
            self.strides, self.flags = strides, _OTHERWISE

    def __getattr__(self, name: str) -> Any:
        if name not in ("ndim", "nbytes"):
            raise AttributeError(name)
        return getattr(self._host, name)

    @property
    def _host(self) -> np.ndarray[Any, Any]:
        """A NumPy array of this layout, over memory for one element: only the layout is used."""
        one = np.empty(1, self.dtype)
        return np.lib.stride_tricks.as_strided(one, self.shape, self.strides, writeable=False)

    def _view(self, view: np.ndarray[Any, Any]) -> ndarray:
        return ndarray(view.shape, view.dtype, self.data, view.strides)

    def __getitem__(self, index: Any) -> ndarray:
        return self._view(self._host[index])

    def transpose(self, axes: Sequence[int]) -> ndarray:
        """Return the view with its axes in another order."""
        shape, strides = self.shape, self.strides
        return ndarray(
            tuple([shape[i] for i in axes]),
            self.dtype,
            self.data,
            tuple([strides[i] for i in axes]),
        )

    def reshape(self, shape: Sequence[int]) -> ndarray:
        """Return a view of another shape; the array must be contiguous."""
        rest = -self.size // math.prod(shape) if -1 in shape else 0
        return ndarray(tuple([rest if n == -1 else n for n in shape]), self.dtype, self.data)

    def view(self, dtype: np.dtype[Any]) -> ndarray:
        """Return a view of the same bytes with another dtype."""
        return self._view(self._host.view(dtype))

    def fill(self, value: float) -> None:
        """Count a launch."""
        next(launches)


def empty(shape: tuple[int, ...], dtype: Any) -> ndarray:
    """Return a new array of the device."""
    return ndarray(shape, np.dtype(dtype))


def array(values: np.ndarray[Any, Any], order: str = "C") -> ndarray:
    """Return an array of the device with the shape and dtype of `values`; nothing is copied."""
    return ndarray(values.shape, values.dtype)


def broadcast_to(values: ndarray, shape: Sequence[int]) -> ndarray:
    """Return the view broadcast to shape."""
    return values._view(np.broadcast_to(values._host, shape))


def matmul(x: ndarray, y: ndarray, out: ndarray | None = None) -> ndarray:
    """Count a launch."""
    next(launches)
    if out is not None:
        return out
    batch = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    return ndarray((*batch, x.shape[-2], y.shape[-1]), x.dtype)


def ascontiguousarray(values: ndarray) -> ndarray:
    """Return values in C order."""
    return values if values.flags.c_contiguous else ndarray(values.shape, values.dtype)


class RawModule:
    """Source code of kernels, which is not compiled."""

    def __init__(self, code: str, options: Sequence[str]) -> None:
        pass

    def get_function(self, name: str) -> Callable[..., None]:
        """Return a kernel that only counts its launches."""

        def launch(grid: Any, block: Any, args: Any) -> None:
            next(launches)

        return launch


def _set_allocator(allocate: Callable[[int], Any]) -> None:
    _allocator[0] = allocate


cuda = SimpleNamespace(
    Device=Device,
    Event=Event,
    Stream=Stream,
    UnownedMemory=UnownedMemory,
    MemoryPointer=MemoryPointer,
    memory=SimpleNamespace(OutOfMemoryError=type("OutOfMemoryError", (MemoryError,), {})),
    driver=SimpleNamespace(CUDADriverError=type("CUDADriverError", (RuntimeError,), {})),
    runtime=SimpleNamespace(
        CUDARuntimeError=type("CUDARuntimeError", (RuntimeError,), {}),
        getDevice=lambda: 0,
        getDeviceCount=lambda: 1,
        eventQuery=lambda handle: 0,
        streamQuery=lambda handle: 0,
    ),
    device=SimpleNamespace(get_cublas_handle=lambda: 1),
    get_current_stream=lambda number=-1: _current.streams[-1],
    get_allocator=lambda: _allocator[0],
    set_allocator=_set_allocator,
)


_core = SimpleNamespace(
    set_compute_type=lambda dtype, kind: None,
    _routines_linalg=SimpleNamespace(COMPUTE_TYPE_DEFAULT=0, COMPUTE_TYPE_TF32=1),
)


class Library:
    """cuBLASLt: all functions succeed, and a product is counted as a launch."""

    def __getattr__(self, name: str) -> Callable[..., int]:
        def succeed(*given: Any) -> int:
            if name == "cublasLtMatmul":
                next(launches)
            elif name == "cublasLtMatmulAlgoGetHeuristic":
                given[-1]._obj.value = 1  # one algorithm is found
            return 0

        setattr(self, name, succeed)
        return succeed


def take_cupy_s_place() -> None:
    """Let fastdist import this module as CuPy, and `Library` as cuBLASLt.

    Raises  RuntimeError if the real CuPy is loaded already
    """
    from fastdist.kernels.cuda.linalg import library_product

    libraries: Any = ModuleType("cupy_backends.cuda.libs")
    libraries.cublas = SimpleNamespace(getVersion=lambda handle: 120000)
    sys.modules.setdefault(libraries.__name__, libraries)
    library_product.load = lambda name: Library()
    here = sys.modules[__name__]
    there = sys.modules.setdefault("cupy", here)
    if there is not here:
        raise RuntimeError(f"another CuPy is loaded: {there.__name__} {there.__version__}")
    os.environ["CUPY_CACHE_IN_MEMORY"] = "1"  # no kernels are cached, so no folder is needed
