"""Streams and events of CUDA, and threads that call host functions in their order."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Self

from fastdist.core.device import Device
from fastdist.core.errors import KernelError

from ...core.moved_modules import earlier_names
from ..backend import backend_of
from ..gpus import index_of
from .library import cupy, device_errors, is_done


class CudaEvent:
    """A point in a CUDA stream's work."""

    __slots__ = ("native",)

    def __init__(self, native: Any) -> None:
        self.native = native

    def query(self) -> bool:
        """Say whether the stream has passed this point; never waits.

        Raises  KernelError for what failed on the device
        """
        return is_done(cupy().cuda.runtime.eventQuery(self.native.ptr))

    def synchronize(self) -> None:
        """Wait until the stream has passed this point.

        Raises  KernelError for what failed on the device
        """
        with device_errors():
            self.native.synchronize()

    def wait_quietly(self) -> bool:
        """Wait until the stream has passed this point; return whether nothing failed on the way.

        Note    what failed is still raised where somebody waits for the device
        """
        try:
            self.synchronize()
        except KernelError:  # CUDA tells it again, at every later call
            return False
        return True

    def record(self, stream: CudaStream) -> None:
        """Move the point behind what a stream has queued so far."""
        with stream.native_device, device_errors():
            self.native.record(stream.native)

    def handle(self) -> bytes:
        """Return the event's handle for other processes, if it was made for several."""
        with device_errors():
            return bytes(cupy().cuda.runtime.ipcGetEventHandle(self.native.ptr))

    def elapsed_ms(self, end: CudaEvent) -> float:
        """Return the milliseconds from here to another point; both are timed and passed."""
        with device_errors():
            return float(cupy().cuda.get_elapsed_time(self.native, end.native))


def shared_event(device: Any) -> CudaEvent:
    """Return a point of one of CuPy's devices, not set yet, that other processes may know."""
    with device, device_errors():
        return CudaEvent(cupy().cuda.Event(block=True, disable_timing=True, interprocess=True))


def event_of_handle(device: Any, handle: bytes) -> CudaEvent:
    """Return another process's point, by its handle."""
    event = cupy().cuda.Event
    with device, device_errors():
        opened = cupy().cuda.runtime.ipcOpenEventHandle(handle)
        # CuPy makes none of a handle: this one ends as all its events do.
        native = event.__new__(event)
        native.ptr = opened
    return CudaEvent(native)


class CudaStream:
    """A CUDA stream, one of 32 of its GPU that are handed out in turn; a negative priority makes
    one whose work goes first. `with stream:` makes it this thread's current one, for CuPy as well.

    Raises  DeviceError without that GPU
    Note    stream_id and device_index, of another's attributes, find that one again. A class of the
            program's own may be derived: it is given the same arguments
    """

    index: int
    name: str
    native: Any
    priority: int
    _calls: _HostCalls

    def __new__(
        cls,
        device: Any = None,
        priority: int = 0,
        *,
        stream_id: int | None = None,
        device_index: int | None = None,
        device_type: int | None = None,
        **more: Any,
    ) -> Self:
        backend: Any = backend_of("cuda")
        if stream_id is None:
            return cls._seen(backend.stream(index_of(device), priority))
        return cls._seen(backend.stream_of_handle(device_index or 0, stream_id))

    @classmethod
    def _seen(cls, stream: CudaStream) -> Self:
        """Return a stream as one of this class."""
        if type(stream) is cls:
            return stream
        made = object.__new__(cls)
        made.__dict__.update(stream.__dict__)
        return made

    @classmethod
    def over(cls, index: int, native: Any, name: str, priority: int = 0) -> Self:
        """Return the stream of a GPU that is CuPy's `native`."""
        made = object.__new__(cls)
        made.index, made.native, made.name, made.priority = index, native, name, priority
        made._calls = _HostCalls(name)
        return made

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError(f"{self!r} is of this process and cannot be pickled; make one there")

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """Return the priorities of streams: the least, and that of work which goes first."""
        return 0, -1

    @property
    def stream_id(self) -> int:
        """The number by which this stream is found again among those of its GPU."""
        return int(self.native.ptr)

    @property
    def device_index(self) -> int:
        """The index of its GPU."""
        return self.index

    @property
    def device_type(self) -> int:
        """PyTorch's number of CUDA."""
        return 1

    def __cuda_stream__(self) -> tuple[int, int]:
        """Return the version of the protocol of streams, and CUDA's handle."""
        return 0, int(self.native.ptr)

    def __repr__(self) -> str:
        return f"<{self.name}>"

    @property
    def native_device(self) -> Any:
        """CuPy's device, to be entered once."""
        # A new one each time: it remembers where to return to, and threads may be here at once.
        return cupy().cuda.Device(self.index)

    @property
    def device(self) -> Device:
        """The GPU that it belongs to."""
        return Device("cuda", self.index)

    @property
    def cuda_stream(self) -> int:
        """CUDA's own handle, for other libraries."""
        return int(self.native.ptr)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CudaStream):
            return NotImplemented
        return (self.index, self.native.ptr) == (other.index, other.native.ptr)

    def __hash__(self) -> int:
        return hash((self.index, self.native.ptr))

    def is_capturing(self) -> bool:
        """Return whether its work is captured for a graph instead of done."""
        with self.native_device, device_errors():
            return bool(self.native.is_capturing())

    def wait_stream(self, stream: CudaStream) -> None:
        """Let work queued from now on start after what another stream has queued."""
        self.wait_event(stream.record_event())

    def follow(self, stream: CudaStream) -> None:
        """Let work queued from now on start after what another stream has queued, as far as work
        that is captured can: what stands outside of its graph is done before that is launched.
        """
        if not self.is_capturing() or stream.is_capturing():
            self.wait_stream(stream)

    def use(self) -> None:
        """Make it this thread's current one, until another is."""
        with self.native_device:
            self.native.use()

    def record_event(self, event: Any = None, *, timed: bool = False) -> Any:
        """Mark the end of the work queued so far, with its time if `timed`; a user's event
        is recorded itself, and returned.
        """
        if event is not None:
            event.record(self)
            return event
        with self.native_device, device_errors():
            # Blocking: a thread that waits for it sleeps instead of spinning on one of few cores.
            event = cupy().cuda.Event(block=True, disable_timing=not timed)
            event.record(self.native)
        return CudaEvent(event)

    def wait_event(self, event: Any) -> None:
        """Let work queued from now on start after the event; a user's that is not set is passed."""
        event = getattr(event, "point", event)
        if event is None:
            return
        if not isinstance(event, CudaEvent):
            # Another backend's: the GPU cannot wait for it, so the caller does.
            event.synchronize()
            return
        with self.native_device, device_errors():
            self.native.wait_event(event.native)

    def query(self) -> bool:
        """Say whether all queued work is done; never waits.

        Raises  KernelError for what failed on the device
        """
        with self.native_device:
            return is_done(cupy().cuda.runtime.streamQuery(self.native.ptr))

    def synchronize(self) -> None:
        """Wait until all queued work is done.

        Raises  KernelError for what failed on the device
        """
        with self.native_device, device_errors():
            self.native.synchronize()

    def launch_host_function(self, function: Callable[[], object]) -> None:
        """Call function after the work queued so far, even if that failed; on a thread of ours."""
        self._calls.put(self, function)

    def stop(self) -> None:
        """End the thread of the host functions, when it has called those that were given."""
        self._calls.stop()

    def __enter__(self) -> Self:
        # CuPy lets a stream be entered only while its device is current.
        if cupy().cuda.runtime.getDevice() == self.index:
            self.native.__enter__()
        else:
            with self.native_device:
                self.native.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if cupy().cuda.runtime.getDevice() == self.index:
            self.native.__exit__(kind, error, traceback)
        else:
            with self.native_device:
                self.native.__exit__(kind, error, traceback)


class ExternalStream(CudaStream):
    """Another library's stream, of CUDA's handle, which has to outlive it.

    Raises  DeviceError without that GPU
    """

    def __new__(cls, stream_ptr: int, device: Any = None, **more: Any) -> Self:
        backend: Any = backend_of("cuda")
        return cls._seen(backend.external_stream(index_of(device), stream_ptr))


class _HostCalls:
    """The thread that calls a stream's host functions, from the first one on."""

    # Not CUDA's own host functions: they run on a thread of the driver, where waiting for the
    # interpreter lock, which a caller of the driver may hold, can stop both forever.

    def __init__(self, name: str) -> None:
        self._name = name
        # Guards the two below; CUDA is called while it is held.
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._calls: SimpleQueue[tuple[CudaEvent, Callable[[], object]] | None] | None = None

    def put(self, stream: CudaStream, function: Callable[[], object]) -> None:
        with self._lock:
            if self._calls is None:
                calls: SimpleQueue[tuple[CudaEvent, Callable[[], object]] | None] = SimpleQueue()
                thread = threading.Thread(
                    target=_call_host_functions, args=(calls,), name=self._name, daemon=True
                )
                # First: if there can be no more threads, no later call may rely on this one.
                thread.start()
                self._calls, self._thread = calls, thread
            self._calls.put((stream.record_event(), function))

    def stop(self) -> None:
        with self._lock:
            thread, calls = self._thread, self._calls
            self._thread = self._calls = None
        if thread is not None and calls is not None:
            calls.put(None)
            thread.join()


def _call_host_functions(calls: SimpleQueue[tuple[CudaEvent, Callable[[], object]] | None]) -> None:
    while (call := calls.get()) is not None:
        event, function = call
        try:
            # Waiters for the stream get the device's error; others may wait for the function
            # anyway.
            with contextlib.suppress(KernelError):
                event.synchronize()
            function()
        except Exception:
            told = (*sys.exc_info(), threading.current_thread())
            threading.excepthook(threading.ExceptHookArgs(told))


# Pickles of as-torch name the classes as PyTorch does.
__getattr__ = earlier_names(__name__)
