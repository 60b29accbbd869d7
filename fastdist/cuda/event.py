"""Events: points in a GPU's work. A program queries them, waits for them or measures times."""

from __future__ import annotations

from typing import Any

from ..core.device import CPU, Device
from ..core.errors import DeviceError
from ..core.folded_frames import fold_public
from ..devices.backend import backend_of
from ..devices.gpus import device_count, index_of


class Event:
    """A point in the work of a device, set by `record`. The default device is the current GPU, or
    the CPU on a machine without a GPU.

    Note    CPU work is done when a call returns, so an event of the CPU is always complete
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
        """Set the point after all work that is queued on a stream (default: the current one).

        Raises  RuntimeError on the CPU
        """
        if self.device is CPU:
            raise DeviceError("cpu backend doesn't support events.")
        stream = self._current() if stream is None else stream
        self.point = stream.record_event(timed=self._timed)

    def wait(self, stream: Any = None) -> None:
        """Make later work of a stream (default: the current one) start after the point."""
        if self.point is not None:
            (self._current() if stream is None else stream).wait_event(self.point)

    def query(self) -> bool:
        """Return whether the GPU has reached the point; True if the point is not set."""
        return self.point is None or bool(self.point.query())

    def synchronize(self) -> None:
        """Wait until the GPU has reached the point."""
        if self.point is not None:
            self.point.synchronize()

    def elapsed_time(self, end_event: Event) -> float:
        """Wait until the GPU reaches `end_event`; return the GPU time between the two events.

        Units   milliseconds
        Raises  ValueError if an event is not recorded, or was created without enable_timing
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
    Note    `blocking` has no effect: a waiting thread always sleeps, because spinning would occupy
            a core
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
        """Return another process's event on a GPU of this machine, from its `ipc_handle()`. The
        other process records the event, and must keep the event as long as this process uses it.

        Raises  KernelError for a value that is not a handle of an existing event
        """
        made = cls(interprocess=True)
        made.device = Device("cuda", index_of(device))
        made.point = made._backend.event_of_handle(made.device.index, handle)
        return made

    def record(self, stream: Any = None) -> None:
        """Set the point after all work that is queued on a stream (default: the current one). An
        interprocess event records its first CUDA event again, because other processes have the
        handle of that CUDA event.
        """
        if not self.interprocess:
            super().record(stream)
            return
        stream = self._current() if stream is None else stream
        if self.point is None:
            self.point = self._backend.shared_event(stream.index)
        self.point.record(stream)

    def ipc_handle(self) -> bytes:
        """Return the handle that another process of this machine passes to `from_ipc_handle`.

        Raises  RuntimeError unless the event was created with interprocess=True
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
        """The CUDA handle of the event, for other libraries; 0 before the first record."""
        return 0 if self.point is None else int(self.point.native.ptr)

    event_id = cuda_event

    def __repr__(self) -> str:
        point = "uninitialized" if self.point is None else f"{self.cuda_event:#x}"
        return f"<torch.cuda.Event {point}>"


fold_public(__name__)
