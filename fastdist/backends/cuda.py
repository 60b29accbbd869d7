"""NVIDIA GPUs: CuPy's memory and streams, kernels of fastdist.kernels.cuda.

CuPy loads with the first call of `load`. The current stream is CuPy's own, so that what users do
with CuPy themselves is ordered with our work.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import itertools
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from queue import SimpleQueue
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np

from fastdist.core.errors import DeviceError, KernelError, OutOfMemoryError
from fastdist.core.scalar import parse

if TYPE_CHECKING:
    from fastdist.core.scalar import Body

# Side streams of a device; who asks for more gets one that others use too.
_STREAMS: Final = 32
_COPY: Final = parse("x", ("x",))
_ADD: Final = parse("x + y", ("x", "y"))


class CudaEvent:
    """A point in a CUDA stream's work."""

    __slots__ = ("native",)

    def __init__(self, native: Any) -> None:
        self.native = native

    def query(self) -> bool:
        """Say whether the stream has passed this point; never waits."""
        with _device_errors():
            return bool(self.native.done)

    def synchronize(self) -> None:
        """Wait until the stream has passed this point.

        Raises  KernelError for what failed on the device
        """
        with _device_errors():
            self.native.synchronize()


class CudaStream:
    """A CUDA stream. `with stream:` makes it this thread's current one, for CuPy as well."""

    def __init__(self, index: int, native: Any, name: str) -> None:
        self.index = index
        self.name = name
        self.native = native
        # Guards _host_calls against two first calls.
        self._host_calls_lock = threading.Lock()
        self._host_calls: SimpleQueue[tuple[CudaEvent, Callable[[], object]] | None] | None = None

    def __repr__(self) -> str:
        return f"<{self.name}>"

    @property
    def _device(self) -> Any:
        # A new one each time: it remembers where to return to, and threads may be here at once.
        return _cupy().cuda.Device(self.index)

    def record_event(self) -> CudaEvent:
        """Mark the end of the work queued so far."""
        with self._device, _device_errors():
            # Blocking: a thread that waits for it sleeps instead of spinning on one of few cores.
            event = _cupy().cuda.Event(block=True, disable_timing=True)
            event.record(self.native)
        return CudaEvent(event)

    def wait_event(self, event: Any) -> None:
        """Let work queued from now on start after the event."""
        if not isinstance(event, CudaEvent):
            # Another backend's: the GPU cannot wait for it, so the caller does.
            event.synchronize()
            return
        with self._device, _device_errors():
            self.native.wait_event(event.native)

    def query(self) -> bool:
        """Say whether all queued work is done; never waits."""
        with self._device, _device_errors():
            return bool(self.native.done)

    def synchronize(self) -> None:
        """Wait until all queued work is done.

        Raises  KernelError for what failed on the device
        """
        with self._device, _device_errors():
            self.native.synchronize()

    def launch_host_function(self, function: Callable[[], object]) -> None:
        """Call function after the work queued so far, even if that failed; on a thread of ours."""
        # Not CUDA's own host functions: they run on a thread of the driver, where waiting for the
        # interpreter lock, which a caller of the driver may hold, can stop both for ever.
        with self._host_calls_lock:
            if self._host_calls is None:
                self._host_calls = SimpleQueue()
                thread = threading.Thread(
                    target=_call_host_functions,
                    args=(self._host_calls,),
                    name=self.name,
                    daemon=True,
                )
                thread.start()
                atexit.register(self._host_calls.put, None)
        self._host_calls.put((self.record_event(), function))

    def __enter__(self) -> Self:
        # CuPy lets a stream be entered only while its device is current.
        with self._device:
            self.native.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._device:
            self.native.__exit__(kind, error, traceback)


def _call_host_functions(calls: SimpleQueue[tuple[CudaEvent, Callable[[], object]] | None]) -> None:
    while (call := calls.get()) is not None:
        event, function = call
        try:
            # A failure of the device is told to whoever waits for the stream; somebody may wait for
            # the function all the same.
            with contextlib.suppress(KernelError):
                event.synchronize()
            function()
        except Exception:
            told = (*sys.exc_info(), threading.current_thread())
            threading.excepthook(threading.ExceptHookArgs(told))


class _Block:
    """Memory of the pool, and the streams that may still use it when its last array is gone."""

    __slots__ = ("_limbo", "_pointer", "streams")

    def __init__(self, pointer: Any, limbo: deque[tuple[list[CudaEvent], Any]]) -> None:
        self._pointer, self._limbo = pointer, limbo
        self.streams: set[CudaStream] = set()

    def __del__(self) -> None:
        if self.streams and not sys.is_finalizing():
            events = [stream.record_event() for stream in self.streams]
            self._limbo.append((events, self._pointer))


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
        # Memory that record_stream holds back, with the events after which the pool may have it.
        # append and popleft are atomic, and a finalizer may come in between: no lock.
        self._limbo: deque[tuple[list[CudaEvent], Any]] = deque()
        self._allocate_in_pool = _cupy().cuda.get_allocator()
        # For all of CuPy, since reshapes and products allocate by themselves.
        _cupy().cuda.set_allocator(self._allocate)

    def device_count(self) -> int:
        return self._device_count

    def empty(self, shape: Sequence[int], dtype: np.dtype[Any], index: int | None = None) -> Any:
        with self._device(index):
            return _cupy().empty(tuple(shape), dtype)

    def from_numpy(self, array: np.ndarray, index: int | None = None) -> Any:
        # CuPy copies through pinned memory of its own, so the caller's may change at once.
        with self._device(index), _device_errors():
            return _cupy().array(array, order="C")

    def to_numpy(self, array: Any) -> np.ndarray:
        with array.device, _device_errors():
            copy: np.ndarray = _cupy().asnumpy(array)
        return copy

    def index_of(self, array: Any) -> int:
        return int(array.device.id)

    def data_ptr(self, array: Any) -> int:
        return int(array.data.ptr)

    def expand(self, array: Any, shape: Sequence[int]) -> Any:
        return _cupy().broadcast_to(array, tuple(shape))

    def as_strided(
        self,
        array: Any,
        shape: Sequence[int],
        strides_bytes: Sequence[int],
        offset_bytes: int = 0,
    ) -> Any:
        start = array.data + offset_bytes
        return _cupy().ndarray(tuple(shape), array.dtype, start, tuple(strides_bytes))

    def copy_into(self, out: Any, array: Any) -> None:
        if isinstance(array, np.ndarray) or array.device == out.device:
            self.pointwise(_COPY, [array], out)
            return
        # Each side waits for the other: the values must be there, and stay until they are read.
        here, there = (self.current_stream(a.device.id) for a in (out, array))
        with array.device:
            array = _cupy().ascontiguousarray(array)
        here.wait_event(there.record_event())
        with out.device, _device_errors():
            copy = _cupy().empty(array.shape, array.dtype)
            copy.data.copy_from_device_async(array.data, array.nbytes, here.native)
        there.wait_event(here.record_event())
        self.pointwise(_COPY, [copy], out)

    def pointwise(self, body: Body, arrays: Sequence[Any], out: Any) -> None:
        _require_one_device(body.text, [*arrays, out])
        with _device_errors():
            self.kernel("pointwise.pointwise")(body, arrays, out)

    def kernel(self, name: str) -> Callable[..., None]:
        found = self._kernels.get(name)
        if found is None:
            found = self._kernels[name] = _find_kernel(name)
        return found

    def add_into(self, accumulator: Any, array: Any) -> None:
        self.pointwise(_ADD, [accumulator, array], accumulator)

    def current_stream(self, index: int | None = None) -> CudaStream:
        number = self._device(index).id
        native = _cupy().cuda.get_current_stream(number)
        return self._stream_of(number, native, "stream" if native.ptr else "default-stream")

    def stream(self, index: int | None = None) -> CudaStream:
        with self._device(index) as device, self._streams_lock:
            if device.id not in self._side_streams:
                # non_blocking: the default stream would wait for all side streams otherwise.
                made = [_cupy().cuda.Stream(non_blocking=True) for _ in range(_STREAMS)]
                self._side_streams[device.id] = itertools.cycle(made)
            native = next(self._side_streams[device.id])
        return self._stream_of(device.id, native, "side-stream")

    def record_stream(self, array: Any, stream: CudaStream) -> None:
        if not array.size:
            return
        block = getattr(array.data.mem, "_owner", None)
        if not isinstance(block, _Block):
            raise DeviceError(
                "record_stream: the array's memory was allocated before fastdist's cuda backend was"
                " loaded; copy it first, or keep it until the stream is done"
            )
        block.streams.add(stream)

    def synchronize(self, index: int | None = None) -> None:
        with self._device(index) as device, _device_errors():
            device.synchronize()

    def _device(self, index: int | None) -> Any:
        index = index or 0
        if not 0 <= index < self._device_count:
            raise DeviceError(
                f"cuda:{index} does not exist: {self._device_count} GPUs are visible;"
                " CUDA_VISIBLE_DEVICES says which"
            )
        return _cupy().cuda.Device(index)

    def _stream_of(self, index: int, native: Any, kind: str) -> CudaStream:
        """Return the one CudaStream of a stream of CuPy's, so that streams compare by identity."""
        with self._streams_lock:
            stream = self._streams.get((index, native.ptr))
            if stream is None:
                name = f"fastdist-cuda-{index}-{kind}-{len(self._streams)}"
                stream = self._streams[index, native.ptr] = CudaStream(index, native, name)
            return stream

    def _allocate(self, size_bytes: int) -> Any:
        """Return memory of the current device; CuPy calls this for every array."""
        self._release(wait=False)
        out_of_memory = _cupy().cuda.memory.OutOfMemoryError
        try:
            pointer = self._allocate_in_pool(size_bytes)
        except out_of_memory:
            self._release(wait=True)
            try:
                pointer = self._allocate_in_pool(size_bytes)
            except out_of_memory as error:
                raise OutOfMemoryError(f"cuda: {size_bytes} bytes are wanted: {error}") from error
        if not size_bytes:
            return pointer
        cuda, block = _cupy().cuda, _Block(pointer, self._limbo)
        memory = cuda.UnownedMemory(pointer.ptr, size_bytes, block, pointer.device.id)
        return cuda.MemoryPointer(memory, 0)

    def _release(self, *, wait: bool) -> None:
        """Give the pool what no stream uses any more."""
        for _ in range(len(self._limbo)):
            try:
                events, pointer = self._limbo.popleft()
            except IndexError:
                return  # another thread was faster
            for event in events if wait else ():
                event.synchronize()
            if not all(event.query() for event in events):
                self._limbo.append((events, pointer))


def _require_one_device(what: str, arrays: Sequence[Any]) -> None:
    devices = set()
    for array in arrays:
        if not isinstance(array, np.ndarray):
            devices.add(f"cuda:{array.device.id}")
        elif array.ndim:
            raise DeviceError(f"{what}: an array of the CPU among arrays of cuda; copy it first")
    if len(devices) > 1:
        raise DeviceError(
            f"{what}: Expected all tensors to be on the same device, "
            f"but found at least two devices, {' and '.join(sorted(devices))}"
        )


def _find_kernel(name: str) -> Callable[..., None]:
    module_name, _, function_name = name.partition(".")
    path = f"fastdist.kernels.cuda.{module_name}"
    try:
        module = import_module(path)
    except ModuleNotFoundError as error:
        if error.name != path:
            raise
        raise DeviceError(f"no kernel {name!r} for CUDA: there is no module {path}") from None
    function: Callable[..., None] | None = getattr(module, function_name, None)
    if function is None:
        raise DeviceError(f"no kernel {name!r} for CUDA: {path} has no {function_name!r}")
    return function


@contextlib.contextmanager
def _device_errors() -> Iterator[None]:
    try:
        yield
    except _cupy().cuda.runtime.CUDARuntimeError as error:
        raise KernelError(f"cuda: {error}") from error


@functools.cache
def _cupy() -> Any:
    return import_module("cupy")


def load() -> CudaBackend:
    """Return the backend of NVIDIA GPUs.

    Raises  DeviceError saying which of CuPy, the driver and a GPU is missing
    """
    try:
        cupy = _cupy()
    except ModuleNotFoundError as error:
        if error.name != "cupy":
            raise
        raise DeviceError(
            "cuda needs CuPy, which is not installed: pip install 'fastdist[cuda12]'"
            " (or fastdist[cuda13], by the driver's CUDA version)"
        ) from None
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise DeviceError(
            f"cuda: CuPy is installed, but no NVIDIA driver with a GPU answers ({error});"
            " nvidia-smi shows whether the machine has one"
        ) from error
    if not count:
        raise DeviceError("cuda: no GPU is visible; CUDA_VISIBLE_DEVICES may hide them all")
    return CudaBackend(count)
