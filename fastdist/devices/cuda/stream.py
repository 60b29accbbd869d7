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

    def elapsed_ms(self, end: CudaEvent) -> float:
        """Return the milliseconds from here to another point; both are timed and passed."""
        with device_errors():
            return float(cupy().cuda.get_elapsed_time(self.native, end.native))


class CudaStream:
    """A CUDA stream. `with stream:` makes it this thread's current one, for CuPy as well."""

    def __init__(self, index: int, native: Any, name: str) -> None:
        self.index = index
        self.name = name
        self.native = native
        # Guards _host_calls and _thread; CUDA is called while it is held.
        self._host_calls_lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._host_calls: SimpleQueue[tuple[CudaEvent, Callable[[], object]] | None] | None = None

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

    def use(self) -> None:
        """Make it this thread's current one, until another is."""
        with self.native_device:
            self.native.use()

    def record_event(self, event: Any = None, *, timed: bool = False) -> Any:
        """Mark the end of the work queued so far, with the time if it is asked for; a user's event
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
        # Not CUDA's own host functions: they run on a thread of the driver, where waiting for the
        # interpreter lock, which a caller of the driver may hold, can stop both for ever.
        with self._host_calls_lock:
            if self._host_calls is None:
                calls: SimpleQueue[tuple[CudaEvent, Callable[[], object]] | None] = SimpleQueue()
                thread = threading.Thread(
                    target=_call_host_functions, args=(calls,), name=self.name, daemon=True
                )
                # First: if there can be no more threads, no later call may rely on this one.
                thread.start()
                self._host_calls, self._thread = calls, thread
            self._host_calls.put((self.record_event(), function))

    def stop(self) -> None:
        """End the thread of the host functions, when it has called those that were given."""
        with self._host_calls_lock:
            thread, calls = self._thread, self._host_calls
            self._thread = self._host_calls = None
        if thread is not None and calls is not None:
            calls.put(None)
            thread.join()

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
