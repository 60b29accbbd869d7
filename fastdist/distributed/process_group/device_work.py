"""The Work of a collective on a GPU: wait() makes a stream wait, and does not block the host."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, Final

from fastdist.core.errors import CollectiveError, CollectiveTimeoutError

from ...concurrency.future import Future
from ...core.device import Device
from ...devices.backend import backend_of
from ...tensor.tensor import Tensor
from .transport import Call
from .work import Work

# The interval between checks of the GPU while the host waits for a collective.
_LOOK_S: Final = 0.0005


class Progress:
    """The state of a collective on a GPU, without references to the result's tensors."""

    def __init__(self, device: Device, call: Call) -> None:
        self.device, self.call = device, call
        self.is_captured = False
        # The event that follows the collective on the collective's stream.
        self.event: Any = None
        # Memory that must stay allocated until the stream has passed the event.
        self.kept: list[Any] = []
        self.error: BaseException | None = None
        self.failed = threading.Event()

    def passed(self) -> bool:
        """Return whether the GPU has completed the collective."""
        return bool(self.event.query())

    def fail(self, error: BaseException) -> None:
        """Record the error of the collective, unless it has completed."""
        if self.error is None and not self.passed():
            self.error = error
            self.failed.set()


class DeviceWork(Work):
    """A collective that is queued on a GPU stream."""

    def __init__(self, result: Any, progress: Progress) -> None:
        super().__init__(result)
        self.progress, self.device = progress, progress.device
        # Whether wait() blocks the host until the GPU is done; barrier() sets this attribute.
        self.blocks_host = os.environ.get("TORCH_NCCL_BLOCKING_WAIT") == "1"

    def wait(self, timeout: timedelta | float | None = None) -> bool:
        """Make the current stream wait for the collective; do not block the host.

        Raises  CollectiveError if the collective is known to have failed; CollectiveTimeoutError if
                the collective did not end within `timeout`

        Args:
            timeout: If given, the host also waits for the collective, for at most this long.
        """
        seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
        progress = self.progress
        if progress.error is not None:
            raise progress.error
        backend: Any = backend_of(self.device.type)
        backend.current_stream(self.device.index).wait_event(progress.event)
        if seconds or (self.blocks_host and not progress.is_captured):
            self._wait_on_host(seconds)
        if progress.is_captured:
            # Later work on the captured stream runs after the collective, so the stream's order
            # protects the memory.
            progress.kept.clear()
        return True

    synchronize = wait

    def _wait_on_host(self, seconds: float | None) -> None:
        progress = self.progress
        deadline = time.monotonic() + seconds if seconds else None
        while progress.error is None and not progress.passed():
            if deadline is not None and time.monotonic() > deadline:
                raise CollectiveTimeoutError(
                    f"Operation timed out! It did not end within {seconds:g} s, which wait() was "
                    "given"
                )
            progress.failed.wait(_LOOK_S)
        if progress.error is not None:
            raise progress.error

    def is_completed(self) -> bool:
        """Return whether the collective has ended: completed by the GPU, or failed."""
        return self.progress.error is not None or self.progress.passed()

    def is_success(self) -> bool:
        """Return whether the GPU has completed the collective successfully."""
        return self.progress.error is None and self.progress.passed()

    def exception(self) -> BaseException | None:
        """Return the error of the collective, or None if it has not failed."""
        return self.progress.error

    def get_future(self) -> Future[Any]:
        """Return a Future of result(), which is done immediately.

        The Future's callbacks run on another stream, which waits for the collective. The Future's
        value() makes the current stream wait for the collective.
        """
        future: DeviceFuture = DeviceFuture(self.device, self.progress.event)
        if self.progress.error is not None:
            future.set_exception(self.progress.error)
        else:
            future.set_result(self._result)
        return future

    def _when_finished(self, callback: Callable[[], None]) -> None:
        raise CollectiveError("a collective of a GPU has no callbacks of the program's own thread")


class DeviceFuture(Future[Any]):
    """A value that a GPU stream computes; reading the value makes the current stream wait."""

    __slots__ = ("_device", "_event")

    def __init__(self, device: Device, event: Any) -> None:
        super().__init__()
        self._device, self._event = device, event
        self.let_follow(self._wait_on_stream)

    def _wait_on_stream(self) -> None:
        if self._event is not None:
            backend: Any = backend_of(self._device.type)
            backend.current_stream(self._device.index).wait_event(self._event)

    def then(self, callback: Callable[[Any], Any]) -> Future[Any]:
        """Call callback(self) on another stream that waits for this value, and return a Future of
        the callback's result.
        """
        if not callable(callback) or not self.done() or self.peek_error() is not None:
            return super().then(callback)
        backend: Any = backend_of(self._device.type)
        stream = backend.stream(self._device.index)
        child = DeviceFuture(self._device, None)
        if backend.is_capturing(self._device.index):
            # During a graph capture, the callback's memory must belong to the captured stream, so
            # the callback runs on that stream.
            stream = backend.current_stream(self._device.index)
        try:
            with stream.native_device, stream:
                value = callback(self)
                if isinstance(value, Future):
                    value = value.wait()
            if not stream.is_capturing():
                for tensor in _tensors_in(value):
                    backend.record_stream(tensor._array, stream)
            child._event = stream.record_event()
        except Exception as error:
            child.set_exception(error)
        else:
            child.set_result(value)
        return child


def _tensors_in(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        if value._layout.device.type != "cpu":
            yield value
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _tensors_in(one)
