"""The backend of NVIDIA GPUs, with CuPy's arrays and the kernels of fastdist.kernels.cuda."""

from __future__ import annotations

import atexit
import functools
import itertools
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from fastdist.core.errors import DeviceError, KernelError
from fastdist.core.precision import products
from fastdist.kernels.cuda.pointwise.pointwise import kernel_of_body, pointwise
from fastdist.language.scalar import parse

from ..backend import Result, replace_backend
from ..find_kernel import find_kernel
from ..host_ring import HostRing
from .float8 import downloaded, uploaded, without_gaps
from .library import cupy, device_errors, raise_as_ours
from .making import adding, making
from .memory import Allocator, give_back_lent, hold_for
from .pinned import copied_in, copied_out, forget_all, hold_until, is_pinned, pinned_empty
from .stream import CudaEvent, CudaStream, event_of_handle, shared_event
from .waiting import sync_debug_mode

if TYPE_CHECKING:
    from fastdist.language.scalar import Body

# The number of side streams of a device; further requests get one of these streams again, in turn.
_STREAMS: Final = 32
# The CUDA priority of streams whose work goes first; every GPU supports it.
_FIRST: Final = -1
_BROKEN_CUPY: Final = (
    "cuda: CuPy is installed, but does not load ({}): reinstall it with pip install "
    "--force-reinstall 'cupy-cuda12x[ctk]>=14' (or cupy-cuda13x), and only one of the two"
)
_NO_UPLOADS: Final = (
    "cuda: values of the CPU, of shape {}, cannot be copied to the GPU while a graph is "
    "captured: each replay would read memory that holds something else by then. Copy them before "
    "the block into a tensor that it reads; full(), zeros() and arange() are allowed in it"
)
_COPY: Final = parse("x", ("x",))


class CudaBackend:
    """The backend of the devices `cuda:0`, `cuda:1` ..., in the order of CUDA_VISIBLE_DEVICES."""

    type = "cuda"

    def __init__(self, device_count: int) -> None:
        self._device_count = device_count
        self._kernels: dict[str, Callable[..., None]] = {}
        # Guards _streams. The thread that holds it may call CUDA, but acquires no other lock.
        self._streams_lock = threading.Lock()
        self._streams: dict[tuple[int, int], CudaStream] = {}
        self.fractions: dict[int, float] = {}  # the memory limit of a device, if it has one
        self.tables: dict[Any, list[Any]] = {}
        self._capturing: CudaStream | None = None
        # CPU memory that the graph being captured reads or writes.
        self._kept_by_capture: list[np.ndarray[Any, Any]] = []
        self._side_streams: dict[tuple[int, bool], Iterator[Any]] = {}  # device, is high priority
        cuda = cupy().cuda
        self._current_device = cuda.runtime.getDevice
        self.add_into = adding(self._add_elsewhere)
        # The allocator is set for all of CuPy, because CuPy's own reshapes and products allocate.
        self.allocator = Allocator(cuda.get_allocator())
        cuda.set_allocator(self.allocator.allocate)
        self.host_ring = HostRing(_lock_pages)
        self._copy_streams: dict[int, CudaStream] = {}
        products.watch(_choose_products)

    def close(self) -> None:
        """Stop the threads of host functions, finish copies of pinned memory and restore CuPy."""
        products.forget(_choose_products)
        with self._streams_lock:
            streams = list(self._streams.values())
        for stream in streams:
            stream.stop()
        forget_all()
        self.host_ring.close()
        self.tables.clear()
        self.allocator.close()

    def device_count(self) -> int:
        return self._device_count

    def empty(self, shape: Sequence[int], dtype: np.dtype[Any], index: int | None = None) -> Any:
        with self._device(index):
            return cupy().empty(tuple(shape), dtype)

    def maker(self, shape: Sequence[int], dtype: np.dtype[Any], index: int | None = None) -> Any:
        return functools.partial(self.empty, shape, dtype, index)

    def from_numpy(
        self, array: np.ndarray, index: int | None = None, *, non_blocking: bool = False
    ) -> Any:
        # Unpinned memory is always copied by CuPy before the call returns.
        late = non_blocking and array.flags.c_contiguous and is_pinned(array)
        if self._capturing is not None and self.is_capturing(index):
            if not late:
                raise KernelError(_NO_UPLOADS.format(array.shape))
            return self._copied_at_each_replay(array, index)
        if late:
            with self._device(index), device_errors():
                stream = self.current_stream(index)
                made = copied_in(array, stream)
                hold_until(stream.record_event(), array)
            return made
        # CuPy copies through its own pinned memory, so the caller may change the array immediately.
        with self._device(index), device_errors():
            return uploaded(array)

    def from_constant(self, array: np.ndarray, index: int | None = None) -> Any:
        if self._capturing is None or not self.is_capturing(index):
            return self.from_numpy(array, index)
        return self._copied_at_each_replay(self.pinned_copy(array), index)

    def _copied_at_each_replay(self, pinned: np.ndarray, index: int | None) -> Any:
        with self._device(index), device_errors():
            self._kept_by_capture.append(pinned)
            return copied_in(pinned, self.current_stream(index))

    def pinned_copy(self, array: np.ndarray) -> np.ndarray[Any, Any]:
        """Return a copy of a CPU array in pinned memory, in C order."""
        with device_errors():
            made = pinned_empty(array.shape, array.dtype)
        np.copyto(made, array)
        return made

    def is_pinned(self, array: np.ndarray) -> bool:
        """Return whether a CPU array is in pinned memory."""
        return is_pinned(array)

    def from_dlpack(self, owner: Any) -> Any:
        """Return an array that shares the memory of another library's array through DLPack."""
        with device_errors():
            return cupy().from_dlpack(owner)

    def from_interface(self, owner: Any) -> Any:
        """Return an array that shares the memory of an object with `__cuda_array_interface__`."""
        with device_errors():
            return cupy().asarray(owner)

    def to_numpy(self, array: Any, *, non_blocking: bool = False) -> np.ndarray:
        if non_blocking:
            with device_errors():
                room = pinned_empty(array.shape, array.dtype)
            self.into_host(room, array)
            return room
        sync_debug_mode.about_to_wait()
        with array.device, device_errors():
            return downloaded(array, self.packed)

    def into_host(self, room: np.ndarray, array: Any) -> bool:
        alike = room.shape == array.shape and room.dtype == array.dtype
        if not (alike and room.flags.c_contiguous and (is_pinned(room) or not room.size)):
            return False
        index = array.device.id
        with array.device, device_errors():
            stream = self.current_stream(index)
            copied_out(without_gaps(array, self.packed), room, stream)
            if self._capturing is not None and self.is_capturing(index):
                self._kept_by_capture.append(room)
            else:
                hold_until(stream.record_event(), room)
        return True

    def begin_copy_to_host(self, out: np.ndarray, array: Any) -> None:
        with array.device, device_errors():
            copied_out(self.packed(array), out, self.current_stream(array.device.id))

    def packed(self, array: Any) -> Any:
        """Return an array of the current device if it is C-contiguous; otherwise a copy that is."""
        if array.flags.c_contiguous:
            return array
        made = cupy().empty(array.shape, array.dtype)
        self.pointwise(_COPY, [array], made)
        return made

    def begin_copy_from_host(self, array: np.ndarray, index: int | None = None) -> Any:
        with self._device(index), device_errors():
            return copied_in(array, self.current_stream(index))

    def index_of(self, array: Any) -> int:
        return int(array.device.id)

    def data_ptr(self, array: Any) -> int:
        return int(array.data.ptr)

    def expand(self, array: Any, shape: Sequence[int]) -> Any:
        return cupy().broadcast_to(array, tuple(shape))

    def as_strided(
        self, array: Any, shape: Sequence[int], strides_bytes: Sequence[int], offset_bytes: int = 0
    ) -> Any:
        start = array.data + offset_bytes
        return cupy().ndarray(tuple(shape), array.dtype, start, tuple(strides_bytes))

    def reinterpret(self, array: Any, dtype: Any) -> Any:
        # CuPy's own view rejects arrays that are not contiguous along all axes.
        old, new = array.dtype.itemsize, np.dtype(dtype).itemsize
        shape = (*array.shape[:-1], array.shape[-1] * old // new)
        return cupy().ndarray(shape, np.dtype(dtype), array.data, (*array.strides[:-1], new))

    def copy_into(self, out: Any, array: Any) -> None:
        if isinstance(array, np.ndarray) or array.device == out.device:
            self.pointwise(_COPY, [array], out)
            return
        # The copy waits until the values exist, and `there` waits until the copy has read them.
        here, there = (self.current_stream(a.device.id) for a in (out, array))
        with array.device:
            array = without_gaps(array, self.packed)
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
        except Exception as error:
            raise_as_ours(error)

    def kernel(self, name: str, reads: int | None = None) -> Callable[..., None]:
        found = self._kernels.get(name)
        if found is None:
            found = self._kernels[name] = _told_in_our_words(find_kernel("cuda", name))
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

    def _add_elsewhere(self, body: Body, accumulator: Any, array: Any) -> None:
        self.pointwise(body, [accumulator, array], accumulator)

    def current_stream(self, index: int | None = None) -> CudaStream:
        number = index or 0
        if number >= self._device_count:
            self._device(number)
        native = cupy().cuda.get_current_stream(number)
        # Streams are never removed, so most lookups succeed without the lock.
        known = self._streams.get((number, native.ptr))
        if known is not None:
            return known
        return self._stream_of(number, native, "stream" if native.ptr else "default-stream")

    def stream(self, index: int | None = None, priority: int = 0) -> CudaStream:
        device = self._device(index)
        goes_first = priority < 0
        with device, self._streams_lock:
            if (device.id, goes_first) not in self._side_streams:
                # non_blocking, because the default stream would otherwise wait for all side
                # streams.
                made = [
                    cupy().cuda.Stream(non_blocking=True, priority=_FIRST if goes_first else None)
                    for _ in range(_STREAMS)
                ]
                self._side_streams[device.id, goes_first] = itertools.cycle(made)
            native = next(self._side_streams[device.id, goes_first])
        priority = _FIRST if goes_first else 0
        return self._stream_of(device.id, native, "side-stream", priority)

    def copy_stream(self, index: int | None = None) -> CudaStream:
        device = self._device(index)
        found = self._copy_streams.get(device.id)
        if found is None:
            with device:
                native = cupy().cuda.Stream(non_blocking=True)
            # If two threads get here at the same time, both use the first thread's stream.
            made = self._stream_of(device.id, native, "copies")
            found = self._copy_streams.setdefault(device.id, made)
        return found

    def default_stream(self, index: int) -> CudaStream:
        """Return the device's default stream."""
        return self._stream_of(self._device(index).id, cupy().cuda.Stream.null, "default-stream")

    def external_stream(self, index: int, handle: int) -> CudaStream:
        """Return a CudaStream for the CUDA handle of another library's stream."""
        with self._device(index):
            native = cupy().cuda.Stream.from_external(_Handle(handle))
        return CudaStream.over(index, native, f"fastdist-cuda-{index}-external-stream-{handle:#x}")

    def stream_of_handle(self, index: int, handle: int) -> CudaStream:
        """Return the CudaStream for a CUDA handle: an existing one of fastdist, or a new one."""
        self._device(index)
        known = self._streams.get((index, handle))
        if known is not None:
            return known
        return self.external_stream(index, handle) if handle else self.default_stream(index)

    def record_stream(self, array: Any, stream: CudaStream) -> None:
        hold_for(array, stream)

    def synchronize(self, index: int | None = None) -> None:
        device = self._device(index)
        with device, device_errors():
            device.synchronize()

    def use(self, index: int) -> None:
        """Make a device CuPy's current device in this thread, so that later calls do not switch."""
        device = self._device(index)
        with device_errors():
            device.use()

    def properties(self, index: int) -> dict[str, Any]:
        """Return the driver's properties of a device, under CUDA's names."""
        self._device(index)
        with device_errors():
            found: dict[str, Any] = cupy().cuda.runtime.getDeviceProperties(index)
        return found

    def memory_info(self, index: int) -> tuple[int, int]:
        """Return the free and the total bytes of a device."""
        with self._device(index), device_errors():
            free, total = cupy().cuda.runtime.memGetInfo()
        return int(free), int(total)

    def reserved_bytes(self, index: int) -> int:
        """Return how many bytes of a device CuPy's pool holds, used or unused."""
        with self._device(index):
            return int(cupy().get_default_memory_pool().total_bytes())

    def free_reserved(self) -> None:
        """Return unused memory of the pool, and memory kept for other processes, to the devices."""
        give_back_lent()
        for index in range(self._device_count):
            with self._device(index), device_errors():
                cupy().get_default_memory_pool().free_all_blocks()

    def limit_memory(self, index: int, fraction: float) -> None:
        """Limit the pool to a fraction of a device's memory; 1 removes the limit."""
        # In CuPy, 0 means no limit. A limit of 1 byte, which is below the block size, allows no
        # allocation.
        limit = {"fraction": 0 if fraction == 1 else fraction} if fraction else {"size": 1}
        with self._device(index):
            cupy().get_default_memory_pool().set_limit(**limit)
        self.fractions[index] = fraction

    def reads_memory_of(self, index: int, peer: int) -> bool:
        """Return whether kernels of a device can read another device's memory."""
        for each in (index, peer):
            self._device(each)
        with device_errors():
            return bool(cupy().cuda.runtime.deviceCanAccessPeer(index, peer))

    def shared_event(self, index: int) -> CudaEvent:
        """Return a new event of a device that other processes can open."""
        return shared_event(self._device(index))

    def event_of_handle(self, index: int, handle: bytes) -> CudaEvent:
        """Return the event of another process, given its handle."""
        return event_of_handle(self._device(index), handle)

    def new_pool(self) -> Any:
        """Return a separate memory pool, for captured graphs or for a program's own use."""
        return cupy().cuda.MemoryPool()

    def begin_capture(self, stream: CudaStream, pool: Any) -> None:
        """Start to capture work that any thread queues on a stream. Its memory comes from `pool`.

        Raises  RuntimeError while another stream is being captured
        """
        with self._streams_lock:
            if self._capturing is not None:
                raise RuntimeError(f"{self._capturing} is being captured; end that capture first")
            with stream.native_device, device_errors():
                stream.native.begin_capture()
            self._capturing = stream
            self.allocator.give_to_capture(stream.native.ptr, pool.malloc)

    def end_capture(self, stream: CudaStream) -> Captured:
        """End the capture, and return the captured graph."""
        with self._streams_lock:
            self._capturing = None
            self.allocator.give_to_capture(stream.native.ptr, None)
            kept, self._kept_by_capture = self._kept_by_capture, []
        with stream.native_device, device_errors():
            return Captured(stream.native.end_capture(), kept)

    def is_capturing(self, index: int | None = None) -> bool:
        return self._capturing is not None and self.current_stream(index).is_capturing()

    def launch_graph(self, graph: Captured, index: int) -> None:
        """Queue a captured graph on a device's current stream."""
        with self._device(index), device_errors():
            graph.native.launch(self.current_stream(index).native)

    def _device(self, index: int | None) -> Any:
        index = index or 0
        if not 0 <= index < self._device_count:
            raise DeviceError(
                f"cuda:{index} does not exist: {self._device_count} GPUs are visible;"
                " CUDA_VISIBLE_DEVICES says which"
            )
        return cupy().cuda.Device(index)

    def _stream_of(self, index: int, native: Any, kind: str, priority: int = 0) -> CudaStream:
        """Return the unique CudaStream for a CuPy stream, so that streams compare by identity."""
        with self._streams_lock:
            stream = self._streams.get((index, native.ptr))
            if stream is None:
                name = f"fastdist-cuda-{index}-{kind}-{len(self._streams)}"
                stream = CudaStream.over(index, native, name, priority)
                self._streams[index, native.ptr] = stream
            return stream


class Captured(NamedTuple):
    """A captured CuPy graph, and the CPU memory that must live as long as the graph."""

    native: Any
    kept: list[np.ndarray[Any, Any]]


def _lock_pages(size_bytes: int) -> np.ndarray[Any, Any]:
    with device_errors():
        return pinned_empty((size_bytes,), np.dtype(np.uint8))


class _Handle:
    """A CUDA stream handle, as an object with the `__cuda_stream__` protocol."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self._handle


def _choose_products(precision: str) -> None:
    """Make CuPy compute float32 products in TF32, or in full precision."""
    core = cupy()._core
    kinds = core._routines_linalg
    wanted = kinds.COMPUTE_TYPE_DEFAULT if precision == "highest" else kinds.COMPUTE_TYPE_TF32
    core.set_compute_type(np.float32, wanted)


def _told_in_our_words(kernel: Callable[..., None]) -> Callable[..., None]:
    """Wrap a kernel so that CUDA's errors are raised as KernelError."""

    @functools.wraps(kernel)
    def told(*given: Any) -> None:
        try:
            kernel(*given)
        except Exception as error:
            raise_as_ours(error)

    return told


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
            raise DeviceError(f"{what}: got a CPU array among arrays of cuda; copy it first")


def load() -> CudaBackend:
    """Return the backend of NVIDIA GPUs.

    Raises  DeviceError that says whether CuPy, the driver or a GPU is missing or broken
    """
    try:
        cuda = cupy().cuda
    except ModuleNotFoundError as error:
        if error.name != "cupy":
            raise DeviceError(_BROKEN_CUPY.format(error)) from error
        raise DeviceError(
            "cuda needs CuPy, which is not installed: in the clone of fastdist, "
            "pip install -e '.[cuda12]' (or '.[cuda13]', by the driver's CUDA version)"
        ) from None
    except (ImportError, OSError, RuntimeError, AttributeError) as error:
        raise DeviceError(_BROKEN_CUPY.format(error)) from error
    if os.environ.get("CUPY_CUDA_PER_THREAD_DEFAULT_STREAM", "0") != "0":
        raise DeviceError(
            "cuda: CUPY_CUDA_PER_THREAD_DEFAULT_STREAM gives each thread its own default stream, "
            "so a backward pass, whose work other threads queue, could run before the work that it "
            "reads from: unset it, and use fastdist.cuda.Stream for separate streams"
        )
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
    os.register_at_fork(after_in_child=refuse_in_child)
    return backend


def refuse_in_child() -> None:
    """Make each use of a GPU raise DeviceError in a forked child: CUDA does not work after fork."""
    replace_backend(ForkedBackend())


class ForkedBackend:
    """Replaces the parent's backend in a forked child. Every use raises DeviceError."""

    type = "cuda"

    def __getattr__(self, name: str) -> Any:
        raise DeviceError(
            "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you "
            "must use the 'spawn' start method: this process was forked after its parent had used "
            'a GPU; start it by multiprocessing.get_context("spawn"), or use GPUs after the fork'
        )
