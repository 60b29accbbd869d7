"""Devices, streams and events of the CuPy shim: work runs when it is queued.

Only copies of pinned memory, and of memory shared between processes, are delayed, until the next
work or a wait. Processes that share an event see its progress in shared memory.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Self
from weakref import WeakValueDictionary

from tests.fibre_shim import shared_files
from tests.fibre_shim.shared_files import Shared

DEVICES = 2
# A GPU that waits longer than this for other work counts as hanging.
_PATIENCE_S = 20.0
# A GPU has finished its delayed copies after this time, even if nothing waits for them.
_SOON_S = 0.002


class CUDARuntimeError(RuntimeError):
    __module__ = "tests.fibre_shim.cupy"  # errors of CuPy are recognized by this module

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
    # An event opened by its handle has only these attributes.
    graph: Capture | None = None
    # Work of other threads (nccl.py) that the stream had not finished when the event was recorded.
    pending: Sequence[threading.Event] = ()

    def __init__(
        self, block: bool = False, disable_timing: bool = False, interprocess: bool = False
    ) -> None:
        assert disable_timing or not interprocess, "CUDA shares no events with a time"
        self.device_id, self.is_shared = state.device, interprocess
        self.recorded_s = 0.0
        Event._made += 1
        self.ptr = Event._made
        if interprocess:
            _events[self.ptr] = shared_files.share(_COUNTS_BYTES, self.ptr)

    def record(self, stream: Stream | None = None) -> None:
        stream = stream or state.streams[state.device][-1]
        assert stream.device_id in (-1, self.device_id), "an event of another device"
        self.recorded_s = time.perf_counter()
        self.graph = stream.captured
        self.pending = stream.unfinished()
        all_events[self.ptr] = self
        if self.graph is not None:
            self.graph.recorded(self.ptr, stream)
        if (shared := _events.get(self.ptr)) is not None:
            counts = _counts_of(shared)
            counts[0] += 1
            late(lambda reached=counts[0]: counts.__setitem__(1, reached), stream)
            soon = threading.Timer(_SOON_S, arrive)
            soon.daemon = True
            soon.start()

    def synchronize(self) -> None:
        arrive()
        for one in self.pending:
            assert one.wait(_PATIENCE_S), "the GPU waits for ever for another one"
        _wait_for_others(self)


# Events by their handles.
all_events: WeakValueDictionary[int, Event] = WeakValueDictionary()


def is_pending(handle: int) -> bool:
    """Return whether an event waits for work of other threads."""
    event = all_events.get(handle)
    return event is not None and any(not one.is_set() for one in event.pending)


# The size of an event's two counts: how often it was recorded, and how often its GPU reached it.
_COUNTS_BYTES = 16
_events: dict[int, Shared] = {}


def shared_event(number: int) -> Shared | None:
    """Return the counts of an event, or None if the event is not shared."""
    return _events.get(number)


def open_event(shared: Shared) -> int:
    """Return the number by which this process refers to another process's event."""
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


class Capture(list[Callable[[], object]]):
    """Captured work of a stream, and of the streams that have waited for events in its capture."""

    def __init__(self, origin: Stream) -> None:
        super().__init__()
        self.origin = origin
        self.streams = [origin]
        # By event: the number of works before it. By stream: the number of works up to its last
        # one.
        self.events: dict[int, int] = {}
        self.last: dict[int, int] = {}
        self.joined = 0

    def recorded(self, event: int, stream: Stream) -> None:
        self.events[event] = self.last.get(stream.ptr, 0)

    def add(self, work: Callable[[], object], stream: Stream) -> None:
        self.append(work)
        self.last[stream.ptr] = len(self)

    def waited(self, stream: Stream, event: int) -> None:
        if stream not in self.streams:
            self.streams.append(stream)
        if stream is self.origin:
            self.joined = max(self.joined, self.events[event])

    def end(self) -> None:
        others = [self.last.get(one.ptr, 0) for one in self.streams if one is not self.origin]
        for stream in self.streams:
            stream.captured = None
        if max(others, default=0) > self.joined:
            raise CUDARuntimeError(904)  # cudaErrorStreamCaptureUnjoined


class Graph:
    """Captured work."""

    def __init__(self, works: list[Callable[[], object]]) -> None:
        self._works = works

    def launch(self, stream: Stream) -> None:
        arrive()
        for work in self._works:
            work()


# Streams by their handles.
all_streams: WeakValueDictionary[int, Stream] = WeakValueDictionary()


class Stream:
    null: Stream
    _made = 0

    def __init__(
        self, null: bool = False, non_blocking: bool = False, priority: int | None = None
    ) -> None:
        self.device_id = -1 if null else state.device
        Stream._made += not null
        self.ptr = 0 if null else Stream._made
        all_streams[self.ptr] = self
        self.captured: Capture | None = None
        # The keys are devices, since `null` stands for the default streams of all devices.
        self._pending: dict[int, list[threading.Event]] = {}

    def unfinished(self) -> list[threading.Event]:
        """Return the work of other threads that later work of this stream must wait for."""
        pending = self._pending.get(state.device, [])
        if pending:
            pending = self._pending[state.device] = [one for one in pending if not one.is_set()]
        return list(pending)

    def add_pending(self, events: Sequence[threading.Event]) -> None:
        """Make later work of this stream wait for the work of other threads."""
        self._pending.setdefault(state.device, []).extend(events)

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
        self.captured = Capture(self)

    def end_capture(self) -> Graph:
        works = self.captured
        assert works is not None
        works.end()
        return Graph(list(works))

    def __enter__(self) -> Self:
        assert self.device_id in (-1, state.device), "a stream of another device"
        state.streams[state.device].append(self)
        return self

    def __exit__(self, *_: object) -> None:
        state.streams[state.device].pop()

    def wait_event(self, event: Event) -> None:
        assert isinstance(event, Event)
        if self.captured is not None and event.graph is not self.captured:
            raise CUDARuntimeError(905)  # cudaErrorStreamCaptureIsolation
        if event.graph is not None and event.graph.origin.captured is event.graph:
            self.captured = event.graph
            event.graph.waited(self, event.ptr)
        self.add_pending(event.pending)
        _wait_for_others(event)

    def synchronize(self) -> None:
        if self.captured is not None:
            raise CUDARuntimeError(900)
        self.finish()

    def finish(self) -> None:
        """Wait for all work, as a copy to the host does; tests count this as one wait."""
        arrive()
        for one in self.unfinished():
            assert one.wait(_PATIENCE_S), "the GPU waits for ever for another one"


null = Stream.null = Stream(null=True)
state = _State()


# Copies from and to pinned or shared memory that nothing has waited for yet.
_late: list[Callable[[], object]] = []


def queue(work: Callable[[], object]) -> None:
    """Run `work` on the current stream, or record it during a capture."""
    stream = state.streams[state.device][-1]
    if stream.captured is None:
        arrive()
        for one in stream.unfinished():
            assert one.wait(_PATIENCE_S), "the GPU waits for ever for another one"
        work()
    else:
        stream.captured.add(work, stream)


def late(work: Callable[[], object], stream: Stream) -> None:
    """Delay a copy until the next work or wait on any stream.

    If code lacks a wait that a GPU requires, it therefore reads the destination, or overwrites the
    source, before the copy, and its test fails.
    """
    if stream.captured is None:
        _late.append(work)
    else:
        stream.captured.add(work, stream)


# The lock is reentrant, because freeing memory at the end of a copy may check the pool again.
_arriving = threading.RLock()


def arrive() -> None:
    with _arriving:
        while _late:
            _late.pop(0)()
