"""Stand-ins for events, clocks and GPU transports, for tests of the backend nccl."""

from __future__ import annotations

from types import SimpleNamespace

from fastdist.core.device import Device
from fastdist.distributed.process_group.device_work import Progress
from fastdist.distributed.process_group.transport import Call

GPU = Device("cuda", 1)
CALL = Call(4, "all_reduce", "float32", "a.py:3", 200.0)


class Event:
    """A stand-in for an event on a stream; the test sets whether the event has passed."""

    def __init__(self, passed: bool = False, error: Exception | None = None) -> None:
        self.passed, self.error = passed, error

    def query(self) -> bool:
        if self.error is not None:
            raise self.error
        return self.passed


def progress_of(event: Event, call: Call = CALL) -> Progress:
    made = Progress(GPU, call)
    made.event = event
    return made


class Clock:
    """A stand-in for the module `time`: each query advances the clock by `step` seconds."""

    def __init__(self, now: float = 100.0, step: float = 1.0) -> None:
        self.now, self.step = now, step

    def monotonic(self) -> float:
        self.now += self.step
        return self.now - self.step


class Part:
    """A stand-in for a DeviceTransport under watch."""

    def __init__(self) -> None:
        self.is_captured, self.error = False, None
        allocator = SimpleNamespace(has_capture=lambda: self.is_captured)
        self.memory = SimpleNamespace(backend=SimpleNamespace(allocator=allocator))
        self.looked: list[Call] = []

    def require_healthy(self, call: Call) -> None:
        self.looked.append(call)
        if self.error is not None:
            raise self.error
