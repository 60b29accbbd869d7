"""The backend of NVIDIA GPUs: CuPy's arrays, kernels of fastdist.kernels.cuda."""

from __future__ import annotations

import atexit
import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from fastdist.core.errors import DeviceError, KernelError
from fastdist.core.scalar import parse
from fastdist.kernels.cuda.pointwise import kernel_of_body, pointwise

from ..backend import Result
from ..find_kernel import find_kernel
from .library import cupy, device_errors
from .making import making
from .memory import Allocator, hold_for
from .stream import CudaStream

if TYPE_CHECKING:
    from fastdist.core.scalar import Body

# Side streams of a device; who asks for more gets one that others use too.
_STREAMS: Final = 32
_COPY: Final = parse("x", ("x",))
_ADD: Final = parse("x + y", ("x", "y"))


class CudaBackend:
    """Devices `cuda:0`, `cuda:1` ..., in the order of CUDA_VISIBLE_DEVICES."""

    type = "cuda"

    def __init__(self, device_count: int) -> None:
        self._device_count = device_count
        self._kernels: dict[str, Callable[..., None]] = {}
        # Guards _streams; CUDA is called while it is held, nothing else of ours is taken.
        self._streams_lock = threading.Lock()
        self._streams: dict[tuple[int, int], CudaStream] = {}
        self._side_streams: dict[int, Iterator[Any]] = {}
        cuda = cupy().cuda
        self._current_device = cuda.runtime.getDevice
        self._errors = cuda.runtime.CUDARuntimeError, cuda.driver.CUDADriverError
        # For all of CuPy, since reshapes and products allocate by themselves.
        cuda.set_allocator(Allocator(cuda.get_allocator()).allocate)

    def close(self) -> None:
        """End the threads of host functions."""
        with self._streams_lock:
            streams = list(self._streams.values())
        for stream in streams:
            stream.stop()

    def device_count(self) -> int:
        return self._device_count

    def empty(self, shape: Sequence[int], dtype: np.dtype[Any], index: int | None = None) -> Any:
        with self._device(index):
            return cupy().empty(tuple(shape), dtype)

    def from_numpy(self, array: np.ndarray, index: int | None = None) -> Any:
        # CuPy copies through pinned memory of its own, so the caller's may change at once.
        with self._device(index), device_errors():
            return cupy().array(array, order="C")

    def from_dlpack(self, owner: Any) -> Any:
        """Return an array over the memory of another library's."""
        with device_errors():
            return cupy().from_dlpack(owner)

    def to_numpy(self, array: Any) -> np.ndarray:
        with array.device, device_errors():
            copy: np.ndarray = cupy().asnumpy(array)
        return copy

    def index_of(self, array: Any) -> int:
        return int(array.device.id)

    def data_ptr(self, array: Any) -> int:
        return int(array.data.ptr)

    def expand(self, array: Any, shape: Sequence[int]) -> Any:
        return cupy().broadcast_to(array, tuple(shape))

    def as_strided(
        self,
        array: Any,
        shape: Sequence[int],
        strides_bytes: Sequence[int],
        offset_bytes: int = 0,
    ) -> Any:
        start = array.data + offset_bytes
        return cupy().ndarray(tuple(shape), array.dtype, start, tuple(strides_bytes))

    def copy_into(self, out: Any, array: Any) -> None:
        if isinstance(array, np.ndarray) or array.device == out.device:
            self.pointwise(_COPY, [array], out)
            return
        # Each side waits for the other: the values must be there, and stay until they are read.
        here, there = (self.current_stream(a.device.id) for a in (out, array))
        with array.device:
            array = cupy().ascontiguousarray(array)
        here.wait_event(there.record_event())
        with out.device, device_errors():
            copy = cupy().empty(array.shape, array.dtype)
            copy.data.copy_from_device_async(array.data, array.nbytes, here.native)
        there.wait_event(here.record_event())
        self.pointwise(_COPY, [copy], out)

    def pointwise(self, body: Body, arrays: Sequence[Any], out: Any) -> None:
        device = out.device
        _require_one_device(body.text, arrays, device.id)
        try:
            if self._current_device() == device.id:
                pointwise(body, arrays, out)
                return
            with device:
                pointwise(body, arrays, out)
        except self._errors as error:
            raise KernelError(f"cuda: {error}") from error

    def kernel(self, name: str, reads: int | None = None) -> Callable[..., None]:
        found = self._kernels.get(name)
        if found is None:
            found = self._kernels[name] = find_kernel("cuda", name)
        return found

    def making(
        self,
        kernel: str | Body,
        results: Sequence[Result],
        numbers: tuple[Any, ...] = (),
        reads: int | None = None,
        index: int | None = None,
        *,
        of_any_layout: bool = False,
    ) -> Callable[..., Any]:
        found = self.kernel(kernel, reads) if isinstance(kernel, str) else kernel_of_body(kernel)
        return making(found, results, numbers, self._device(index).id, of_any_layout=of_any_layout)

    def add_into(self, accumulator: Any, array: Any) -> None:
        self.pointwise(_ADD, [accumulator, array], accumulator)

    def current_stream(self, index: int | None = None) -> CudaStream:
        number = index or 0
        if number >= self._device_count:
            self._device(number)
        native = cupy().cuda.get_current_stream(number)
        # Streams are never taken out, so nearly all are found without the lock.
        known = self._streams.get((number, native.ptr))
        if known is not None:
            return known
        return self._stream_of(number, native, "stream" if native.ptr else "default-stream")

    def stream(self, index: int | None = None) -> CudaStream:
        device = self._device(index)
        with device, self._streams_lock:
            if device.id not in self._side_streams:
                # non_blocking: the default stream would wait for all side streams otherwise.
                made = [cupy().cuda.Stream(non_blocking=True) for _ in range(_STREAMS)]
                self._side_streams[device.id] = itertools.cycle(made)
            native = next(self._side_streams[device.id])
        return self._stream_of(device.id, native, "side-stream")

    def record_stream(self, array: Any, stream: CudaStream) -> None:
        hold_for(array, stream)

    def synchronize(self, index: int | None = None) -> None:
        device = self._device(index)
        with device, device_errors():
            device.synchronize()

    def _device(self, index: int | None) -> Any:
        index = index or 0
        if not 0 <= index < self._device_count:
            raise DeviceError(
                f"cuda:{index} does not exist: {self._device_count} GPUs are visible;"
                " CUDA_VISIBLE_DEVICES says which"
            )
        return cupy().cuda.Device(index)

    def _stream_of(self, index: int, native: Any, kind: str) -> CudaStream:
        """Return the one CudaStream of a stream of CuPy's, so that streams compare by identity."""
        with self._streams_lock:
            stream = self._streams.get((index, native.ptr))
            if stream is None:
                name = f"fastdist-cuda-{index}-{kind}-{len(self._streams)}"
                stream = self._streams[index, native.ptr] = CudaStream(index, native, name)
            return stream


def _require_one_device(what: str, arrays: Sequence[Any], number: int) -> None:
    for array in arrays:
        if not isinstance(array, np.ndarray):
            if array.device.id != number:
                there = sorted([f"cuda:{array.device.id}", f"cuda:{number}"])
                raise DeviceError(
                    f"{what}: Expected all tensors to be on the same device, "
                    f"but found at least two devices, {' and '.join(there)}"
                )
        elif array.ndim:
            raise DeviceError(f"{what}: an array of the CPU among arrays of cuda; copy it first")


def load() -> CudaBackend:
    """Return the backend of NVIDIA GPUs.

    Raises  DeviceError saying which of CuPy, the driver and a GPU is missing
    """
    try:
        cuda = cupy().cuda
    except ModuleNotFoundError as error:
        if error.name != "cupy":
            raise
        raise DeviceError(
            "cuda needs CuPy, which is not installed: in the clone of fastdist, "
            "pip install -e '.[cuda12]' (or '.[cuda13]', by the driver's CUDA version)"
        ) from None
    try:
        count = cuda.runtime.getDeviceCount()
    except cuda.runtime.CUDARuntimeError as error:
        raise DeviceError(
            f"cuda: CuPy is installed, but no NVIDIA driver with a GPU answers ({error});"
            " nvidia-smi shows whether the machine has one"
        ) from error
    if not count:
        raise DeviceError("cuda: no GPU is visible; CUDA_VISIBLE_DEVICES may hide them all")
    backend = CudaBackend(count)
    atexit.register(backend.close)
    return backend
