"""Devices, streams and events of the CuPy that is made of fibres: work is done as it is queued.

Copies of pinned memory, and of memory that processes share, alone are late, until the next work
comes or somebody waits. Events that processes share tell each other how far they are.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Self

from tests.fibre_shim import shared_files
from tests.fibre_shim.shared_files import Shared

DEVICES = 2
# A GPU that waits for another process's waits so long, and then for ever.
_PATIENCE_S = 20.0
# After so long a GPU has done what it was given, though nobody waits.
_SOON_S = 0.002


class CUDARuntimeError(RuntimeError):
    __module__ = "tests.fibre_shim.cupy"  # by which errors of CuPy's are known

    def __init__(self, status: int | str) -> None:
        self.status = status
        super().__init__(f"status {status}" if isinstance(status, int) else status)


class _State(threading.local):
    def __init__(self) -> None:
        self.device = 0
        self.streams = [[null] for _ in range(DEVICES)]


class Device:
    def __init__(self, number: int) -> None:
        self.id = number
        self._before: list[int] = []

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and self.id == other.id

    def __hash__(self) -> int:
        return self.id

    def use(self) -> None:
        state.device = self.id

    def __enter__(self) -> Self:
        self._before.append(state.device)
        state.device = self.id
        return self

    def __exit__(self, *_: object) -> None:
        state.device = self._before.pop()

    def synchronize(self) -> None:
        arrive()


class Event:
    _made = 0

    def __init__(
        self, block: bool = False, disable_timing: bool = False, interprocess: bool = False
    ) -> None:
        assert disable_timing or not interprocess, "CUDA shares no events with a time"
        self.device_id, self.is_shared = state.device, interprocess
        self.recorded_s = 0.0
        self.is_of_graph = False
        Event._made += 1
        self.ptr = Event._made
        if interprocess:
            _events[self.ptr] = shared_files.share(_COUNTS_BYTES, self.ptr)

    def record(self, stream: Stream | None = None) -> None:
        stream = stream or state.streams[state.device][-1]
        assert stream.device_id in (-1, self.device_id), "an event of another device"
        self.recorded_s = time.perf_counter()
        self.is_of_graph = stream.captured is not None
        if (shared := _events.get(self.ptr)) is not None:
            counts = _counts_of(shared)
            counts[0] += 1
            late(lambda reached=counts[0]: counts.__setitem__(1, reached), stream)
            soon = threading.Timer(_SOON_S, arrive)
            soon.daemon = True
            soon.start()

    def synchronize(self) -> None:
        arrive()
        _wait_for_others(self)


# Of an event that processes share: how often it was recorded, and what its GPU has passed of that.
_COUNTS_BYTES = 16
_events: dict[int, Shared] = {}


def shared_event(number: int) -> Shared | None:
    """Return the counts of an event; None if it is of its process alone."""
    return _events.get(number)


def open_event(shared: Shared) -> int:
    """Return the number by which this process knows another's event."""
    Event._made += 1
    _events[Event._made] = shared
    return Event._made


def _counts_of(shared: Shared) -> memoryview:
    return memoryview(shared.mapping).cast("Q")


def _wait_for_others(event: Event) -> None:
    shared = _events.get(event.ptr)
    if shared is None or shared_files.is_own(shared.handle):
        return
    counts, never, deadline = _counts_of(shared), threading.Event(), time.monotonic() + _PATIENCE_S
    recorded = counts[0]
    while counts[1] < recorded:
        if time.monotonic() > deadline:
            raise CUDARuntimeError("the GPU waits for ever for the event of another process")
        never.wait(0.0005)


class Graph:
    """Captured work."""

    def __init__(self, works: list[Callable[[], object]]) -> None:
        self._works = works

    def launch(self, stream: Stream) -> None:
        arrive()
        for work in self._works:
            work()


class Stream:
    null: Stream
    _made = 0

    def __init__(
        self, null: bool = False, non_blocking: bool = False, priority: int | None = None
    ) -> None:
        self.device_id = -1 if null else state.device
        Stream._made += not null
        self.ptr = 0 if null else Stream._made
        self.captured: list[Callable[[], object]] | None = None

    @classmethod
    def from_external(cls, owner: Any) -> Stream:
        made = cls()
        version, made.ptr = owner.__cuda_stream__()
        assert version == 0
        return made

    def use(self) -> None:
        assert self.device_id in (-1, state.device), "a stream of another device"
        state.streams[state.device][-1] = self

    def is_capturing(self) -> bool:
        return self.captured is not None

    def begin_capture(self) -> None:
        assert self.ptr, "CUDA does not capture the default stream"
        self.captured = []

    def end_capture(self) -> Graph:
        works, self.captured = self.captured, None
        assert works is not None
        return Graph(works)

    def __enter__(self) -> Self:
        assert self.device_id in (-1, state.device), "a stream of another device"
        state.streams[state.device].append(self)
        return self

    def __exit__(self, *_: object) -> None:
        state.streams[state.device].pop()

    def wait_event(self, event: Event) -> None:
        assert isinstance(event, Event)
        if self.captured is not None and not event.is_of_graph:
            raise CUDARuntimeError(905)  # cudaErrorStreamCaptureIsolation
        _wait_for_others(event)

    def synchronize(self) -> None:
        if self.captured is not None:
            raise CUDARuntimeError(900)
        arrive()


null = Stream.null = Stream(null=True)
state = _State()


# Copies from and to pinned memory, and memory that processes share, that nobody has waited for.
_late: list[Callable[[], object]] = []


def queue(work: Callable[[], object]) -> None:
    """Do what the current stream is given, or keep it where that is captured."""
    captured = state.streams[state.device][-1].captured
    if captured is None:
        arrive()
        work()
    else:
        captured.append(work)


def late(work: Callable[[], object], stream: Stream) -> None:
    """Do such a copy with the next work, or when somebody waits: who reads its result,
    or writes over its source, before that has not waited as it must on a GPU.
    """
    if stream.captured is None:
        _late.append(work)
    else:
        stream.captured.append(work)


# Taken again by who frees, in a copy's end, what makes another look at the pool.
_arriving = threading.RLock()


def arrive() -> None:
    with _arriving:
        while _late:
            _late.pop(0)()
