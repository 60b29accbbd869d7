"""CUDA streams and events, and the threads that call host functions in stream order."""

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
from fastdist.core.folded_frames import folds

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
        """Return whether the stream has passed this point; never waits.

        Raises  KernelError for an error of the device
        """
        return is_done(cupy().cuda.runtime.eventQuery(self.native.ptr))

    def synchronize(self) -> None:
        """Wait until the stream has passed this point.

        Raises  KernelError for an error of the device
        """
        with device_errors():
            self.native.synchronize()

    def wait_quietly(self) -> bool:
        """Wait until the stream has passed this point; return whether no error occurred.

        Note    later calls that wait for the device still raise the error
        """
        try:
            self.synchronize()
        except KernelError:  # CUDA raises the error again at every later call
            return False
        return True

    def record(self, stream: CudaStream) -> None:
        """Move the event to the end of the work that a stream has queued."""
        with stream.native_device, device_errors():
            self.native.record(stream.native)

    def handle(self) -> bytes:
        """Return the handle for other processes of an event that `shared_event` created."""
        with device_errors():
            return bytes(cupy().cuda.runtime.ipcGetEventHandle(self.native.ptr))

    def elapsed_ms(self, end: CudaEvent) -> float:
        """Return the milliseconds from this event to `end`. Both must be timed and complete."""
        with device_errors():
            return float(cupy().cuda.get_elapsed_time(self.native, end.native))


def shared_event(device: Any) -> CudaEvent:
    """Return a new, unrecorded event of a CuPy device that other processes can open."""
    with device, device_errors():
        return CudaEvent(cupy().cuda.Event(block=True, disable_timing=True, interprocess=True))


def event_of_handle(device: Any, handle: bytes) -> CudaEvent:
    """Return the event of another process, given its handle."""
    event = cupy().cuda.Event
    with device, device_errors():
        opened = cupy().cuda.runtime.ipcOpenEventHandle(handle)
        # CuPy cannot make an Event from a handle, so the attribute is set directly. CuPy destroys
        # this Event like every other Event.
        native = event.__new__(event)
        native.ptr = opened
    return CudaEvent(native)


class CudaStream:
    """A CUDA stream: one of 32 side streams per GPU, which are assigned in turn.

    Streams with a negative priority run before other streams. `with stream:` makes the stream this
    thread's current stream, also for CuPy.

    Raises  DeviceError if the GPU does not exist
    Note    `stream_id` and `device_index`, if passed, select the existing stream that has these
            attributes. The `__init__` of a program's subclass gets the same arguments
    """

    index: int
    name: str
    native: Any
    priority: int
    _calls: _HostCalls

    @folds
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
        """Return a stream as an instance of this class."""
        if type(stream) is cls:
            return stream
        made = object.__new__(cls)
        made.__dict__.update(stream.__dict__)
        return made

    @classmethod
    def over(cls, index: int, native: Any, name: str, priority: int = 0) -> Self:
        """Return a stream object for the CuPy stream `native` of a GPU."""
        made = object.__new__(cls)
        made.index, made.native, made.name, made.priority = index, native, name, priority
        made._calls = _HostCalls(name)
        return made

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError(f"{self!r} is of this process and cannot be pickled; make one there")

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """Return the lowest and the highest priority of streams."""
        return 0, -1

    @property
    def stream_id(self) -> int:
        """The number that identifies the stream among the streams of its GPU."""
        return int(self.native.ptr)

    @property
    def device_index(self) -> int:
        """The index of the stream's GPU."""
        return self.index

    @property
    def device_type(self) -> int:
        """PyTorch's number for CUDA devices."""
        return 1

    def __cuda_stream__(self) -> tuple[int, int]:
        """Return the version of the stream protocol, and the CUDA handle."""
        return 0, int(self.native.ptr)

    def __repr__(self) -> str:
        return f"<{self.name}>"

    @property
    def native_device(self) -> Any:
        """A new CuPy device object, to be entered only once."""
        # The object stores the previous device, so threads must not share one object.
        return cupy().cuda.Device(self.index)

    @property
    def device(self) -> Device:
        """The GPU that the stream belongs to."""
        return Device("cuda", self.index)

    @property
    def cuda_stream(self) -> int:
        """The CUDA handle, for other libraries."""
        return int(self.native.ptr)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CudaStream):
            return NotImplemented
        return (self.index, self.native.ptr) == (other.index, other.native.ptr)

    def __hash__(self) -> int:
        return hash((self.index, self.native.ptr))

    def is_capturing(self) -> bool:
        """Return whether the stream's work is captured into a graph instead of run."""
        with self.native_device, device_errors():
            return bool(self.native.is_capturing())

    def wait_stream(self, stream: CudaStream) -> None:
        """Make work queued from now on start after the work that another stream has queued."""
        self.wait_event(stream.record_event())

    def follow(self, stream: CudaStream) -> None:
        """Do as `wait_stream` does, unless this stream is captured and the other one is not.

        A captured stream cannot wait for work outside of its graph. That work must be done before
        the graph is launched.
        """
        if not self.is_capturing() or stream.is_capturing():
            self.wait_stream(stream)

    def use(self) -> None:
        """Make this stream the thread's current stream until another stream is chosen."""
        with self.native_device:
            self.native.use()

    def record_event(self, event: Any = None, *, timed: bool = False) -> Any:
        """Return a new event at the end of the work queued so far; with `timed`, it measures time.

        If the user passes an event, record and return that event instead.
        """
        if event is not None:
            event.record(self)
            return event
        with self.native_device, device_errors():
            # block=True: a thread that waits for the event sleeps instead of occupying a CPU core.
            event = cupy().cuda.Event(block=True, disable_timing=not timed)
            event.record(self.native)
        return CudaEvent(event)

    def wait_event(self, event: Any) -> None:
        """Make work queued from now on start after the event; an unrecorded event does nothing."""
        event = getattr(event, "point", event)
        if event is None:
            return
        if not isinstance(event, CudaEvent):
            # The GPU cannot wait for an event of another backend, so the calling thread waits.
            event.synchronize()
            return
        with self.native_device, device_errors():
            self.native.wait_event(event.native)

    def query(self) -> bool:
        """Return whether all queued work is done; never waits.

        Raises  KernelError for an error of the device
        """
        with self.native_device:
            return is_done(cupy().cuda.runtime.streamQuery(self.native.ptr))

    def synchronize(self) -> None:
        """Wait until all queued work is done.

        Raises  KernelError for an error of the device
        """
        with self.native_device, device_errors():
            self.native.synchronize()

    def launch_host_function(self, function: Callable[[], object]) -> None:
        """Call `function` on a Python thread after earlier work, even if that work failed."""
        self._calls.put(self, function)

    def stop(self) -> None:
        """Stop the thread of host functions, after it has called all queued functions."""
        self._calls.stop()

    def __enter__(self) -> Self:
        # CuPy requires that the stream's device is current when the stream is entered.
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
    """Another library's stream, given by its CUDA handle; that stream must outlive this object.

    Raises  DeviceError if the GPU does not exist
    """

    @folds
    def __new__(cls, stream_ptr: int, device: Any = None, **more: Any) -> Self:
        backend: Any = backend_of("cuda")
        return cls._seen(backend.external_stream(index_of(device), stream_ptr))


class _HostCalls:
    """The thread that calls a stream's host functions; it starts with the first function."""

    # CUDA's own host functions are not used, because they run on a driver thread. That thread would
    # wait for the interpreter lock. If a thread that is in a driver call holds that lock, both
    # threads can deadlock.

    def __init__(self, name: str) -> None:
        self._name = name
        # Guards the two attributes below. The thread that holds it may call CUDA.
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
                # The thread is started before it is stored: if the start fails, the next call must
                # try again.
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
            # A device error is ignored here, because threads that wait for the stream get it. The
            # function is called even then, because other threads may wait for its effect.
            with contextlib.suppress(KernelError):
                event.synchronize()
            function()
        except Exception:
            told = (*sys.exc_info(), threading.current_thread())
            threading.excepthook(threading.ExceptHookArgs(told))


# Pickles written in as-torch mode have PyTorch's names of these classes, which this resolves.
__getattr__ = earlier_names(__name__)
