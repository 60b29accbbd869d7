"""Points in the work of a GPU: whether it has passed them, and how long it took between two."""

from __future__ import annotations

from typing import Any

from ..core.device import CPU, Device
from ..core.errors import DeviceError
from ..devices.backend import backend_of
from ..devices.gpus import device_count, index_of


class Event:
    """A point in the work of a device, the GPU unless named or missing, once `record` has set it.

    Note    the CPU's work is done when a call returns: its events are always passed
    """

    def __init__(
        self,
        device: Any = None,
        *,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
    ) -> None:
        if device is None:
            device = Device("cuda") if device_count() else CPU
        self.device = Device.parse(device)
        self._timed = bool(enable_timing)
        self.point: Any = None

    def record(self, stream: Any = None) -> None:
        """Set the point: behind what a stream, this thread's current one unless given, has queued.

        Raises  RuntimeError on the CPU
        """
        if self.device is CPU:
            raise DeviceError("cpu backend doesn't support events.")
        stream = self._current() if stream is None else stream
        self.point = stream.record_event(timed=self._timed)

    def wait(self, stream: Any = None) -> None:
        """Let work that a stream queues from now on start after the point."""
        if self.point is not None:
            (self._current() if stream is None else stream).wait_event(self.point)

    def query(self) -> bool:
        """Return whether the point is passed; one that is not set is."""
        return self.point is None or bool(self.point.query())

    def synchronize(self) -> None:
        """Wait until the point is passed."""
        if self.point is not None:
            self.point.synchronize()

    def elapsed_time(self, end_event: Event) -> float:
        """Return how long the GPU took from this point to another; waits for that.

        Units   milliseconds
        Raises  ValueError for points that are not set, or without enable_timing
        """
        if not (self._timed and end_event._timed):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self.point is None or end_event.point is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        end_event.synchronize()
        return float(self.point.elapsed_ms(end_event.point))

    def _current(self) -> Any:
        return backend_of(self.device.type).current_stream(self.device.index)


class CudaEvent(Event):
    """An Event of a GPU: `cuda.Event(enable_timing=True)`.

    Raises  DeviceError without a GPU
    Note    a thread that waits sleeps, blocking or not: spinning would take one of few cores
    """

    def __init__(
        self,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
        external: bool = False,
    ) -> None:
        self._backend: Any = backend_of("cuda")
        super().__init__("cuda", enable_timing=enable_timing)
        self.blocking, self.interprocess, self.external = blocking, interprocess, external
        if interprocess and enable_timing:
            raise ValueError(
                "an event that processes share has no timing: pass interprocess=True or "
                "enable_timing=True, not both"
            )

    @classmethod
    def from_ipc_handle(cls, device: Any, handle: bytes) -> CudaEvent:
        """Return the event of another process of this machine, on its GPU, by its ipc_handle; that
        process records it, and keeps it as long as it is used here.

        Raises  KernelError for a value that is not a handle of a living event
        """
        made = cls(interprocess=True)
        made.device = Device("cuda", index_of(device))
        made.point = made._backend.event_of_handle(made.device.index, handle)
        return made

    def record(self, stream: Any = None) -> None:
        """Set the point: behind what a stream, this thread's current one unless given, has queued.
        That of several processes stays the same one, which they know.
        """
        if not self.interprocess:
            super().record(stream)
            return
        stream = self._current() if stream is None else stream
        if self.point is None:
            self.point = self._backend.shared_event(stream.index)
        self.point.record(stream)

    def ipc_handle(self) -> bytes:
        """Return the handle for from_ipc_handle in another process of this machine, of an event
        made with interprocess=True.

        Raises  RuntimeError for another event
        """
        if not self.interprocess:
            raise RuntimeError(
                "ipc_handle: this event cannot be shared with other processes: create it with "
                "interprocess=True"
            )
        if self.point is None:
            self.point = self._backend.shared_event(index_of(None))
        handle: bytes = self.point.handle()
        return handle

    @property
    def cuda_event(self) -> int:
        """CUDA's own handle of the point, for other libraries; 0 before record has set it."""
        return 0 if self.point is None else int(self.point.native.ptr)

    event_id = cuda_event

    def __repr__(self) -> str:
        point = "uninitialized" if self.point is None else f"{self.cuda_event:#x}"
        return f"<torch.cuda.Event {point}>"
