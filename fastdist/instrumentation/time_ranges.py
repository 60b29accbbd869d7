"""Named ranges of time per thread: fastdist's code adds them, and profilers read them.

Code on a hot path checks the flag `on` first, which costs one attribute access if nothing records:

    start_ns = clock() if time_ranges.on else 0
    ...
    if start_ns:
        time_ranges.add("mul", "op", start_ns)

Other code uses `with time_range("epoch 3", "user"):`. A profiler opens a Recording.
"""

from __future__ import annotations

import functools
import operator
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Final, NamedTuple, Protocol, Self

from .memory_meter import memory_meter
from .module_path import module_path
from .python_stack import python_stack

# Monotonic, and the same for all threads of a process. Recording.wall_offset_ns converts it to
# wall-clock time, so that ranges of several processes can be compared.
clock: Final = time.perf_counter_ns
MOST_RANGES: Final = 1_000_000


class Wanted(NamedTuple):
    """The fields to record for each range besides its name and times: input shapes of an op,
    floating-point operations, the Python stack at the start, allocated bytes, the module whose call
    contains the range, and the time on devices other than the CPU.
    """

    shapes: bool = False
    flops: bool = False
    stack: bool = False
    memory: bool = False
    modules: bool = False
    device: bool = False

    def or_those_of(self, other: Wanted) -> Wanted:
        """Return the fields that this object or `other` requests."""
        return Wanted._make(map(operator.or_, self, other))

    def names(self) -> tuple[str, ...]:
        """Return the names of the requested fields, for `wanted_of`."""
        return tuple([name for name in self._fields if getattr(self, name)])


def wanted_of(names: Iterable[str]) -> Wanted:
    """Return the fields with these names; unknown names are ignored.

    Note    another worker, perhaps of another version, may have sent the names
    """
    return Wanted(**{name: True for name in names if name in Wanted._fields})


NOTHING: Final = Wanted()


class TimeRange(NamedTuple):
    """The work of a thread from start to stop.

    `node_id` is the worker id, or -1 outside of RPC. `is_remote` marks a range that was received
    with the answer to a call. An asynchronous range ends on another thread than it began on, and
    contains no other ranges. A message and the work that it causes have the same `flow_id`; other
    ranges have 0. `flops` is an op's number of floating-point operations. `stack` has the Python
    functions around the range, innermost first. `memory_bytes` and `device_memory_bytes` are the
    bytes that the thread allocated from start to stop, minus the bytes that it freed: on the CPU,
    and on other devices. An op and its Node in a backward pass have the same `sequence_nr`; other
    ranges have -1. `module` is the path of the innermost module whose call contains the range, such
    as "Net.encoder.0". `device` is the device of the operands or of a kernel, such as "cuda:0"; it
    is "" for the CPU. An op and its work on a device have the same `kernel_id`; other ranges have
    0.

    Units   nanoseconds of `clock`
    """

    name: str
    category: str
    start_ns: int
    stop_ns: int
    thread_id: int
    thread_name: str
    node_id: int = -1
    is_remote: bool = False
    is_async: bool = False
    flow_id: int = 0
    shapes: tuple[tuple[int, ...], ...] = ()
    flops: int = 0
    stack: tuple[str, ...] = ()
    memory_bytes: int = 0
    sequence_nr: int = -1
    module: str = ""
    device: str = ""
    device_memory_bytes: int = 0
    kernel_id: int = 0


class DeviceWork(Protocol):
    """A device's work for an op; its times are known only when it is done."""

    def when_done(self) -> TimeRange | None:
        """Wait for the work, and return its range, or None if it failed."""


class Recording:
    """Records all ranges that end between start() and stop(). A `with` statement calls both.

    Thread  any
    Note    keeps the first `limit` ranges and counts the others in `dropped`, so that a recording
            that nobody stops does not use up the memory
    """

    # Whether to record the ranges of remote calls on other workers, and whether to warn the owner
    # if that is not possible.
    follows_calls = True
    warns_of_calls = False
    # Whether to call `began` and `ended` at the start and end of each `time_range` block.
    hears_beginnings = False
    # Whether `add_op` may append to `ops` without a call of take_op, up to a length of `most_ops`.
    adds_ops = True
    most_ops = 0

    def __init__(self, limit: int = MOST_RANGES, *, wanted: Wanted = NOTHING) -> None:
        self.wanted = wanted
        self.ranges: list[TimeRange] = []
        self.works: list[DeviceWork] = []
        # Ranges of ops without further fields, as arguments for `range_of_op`.
        self.ops: list[tuple[Any, ...]] = []
        self.dropped = 0
        self.wall_offset_ns = time.time_ns() - clock()
        self._limit = limit
        self._keeps_cpu = self._keeps_device = True
        self._count_room()

    def start(self) -> Self:
        """Start recording."""
        time_ranges.listen(self)
        return self

    def stop(self) -> list[TimeRange]:
        """Stop recording; return the ranges in order of their starts.

        Note    waits for pending work of devices, but does not raise the errors of that work
        """
        time_ranges.forget(self)
        self.await_devices()
        ops, self.ops = self.ops, []
        self.ranges += [range_of_op(*one) for one in ops]
        # Sort into a new list, because another thread may still append its last range to
        # `self.ranges`.
        return sorted(self.ranges, key=lambda known: known.start_ns)

    def switch(self, *, cpu: bool | None = None, device: bool | None = None) -> None:
        """Choose whether to record ranges of the CPU, and of other devices; None does not change
        the choice.
        """
        self._keeps_cpu = self._keeps_cpu if cpu is None else cpu
        self._keeps_device = self._keeps_device if device is None else device
        self._count_room()

    def _count_room(self) -> None:
        if self.adds_ops:
            self.most_ops = self._limit - len(self.ranges) if self._keeps_cpu else 0

    def await_devices(self) -> None:
        """Wait for pending work of devices, and record its ranges."""
        works, self.works = self.works, []
        for work in works:
            known = work.when_done()
            if known is not None:
                self.keep(known)

    def take(self, known: TimeRange) -> None:
        """Record a range, unless `switch` has turned off ranges of this kind."""
        if self._keeps_device if known.category == "kernel" else self._keeps_cpu:
            self.keep(known)

    def take_op(self, given: tuple[Any, ...]) -> None:
        """Record the range of an op, given as arguments for `range_of_op`."""
        if not self._keeps_cpu:
            return
        if len(self.ops) < self.most_ops:
            self.ops.append(given)
        else:
            self.dropped += 1

    def keep(self, known: TimeRange) -> None:
        """Store a range, or count it as dropped if the limit is reached."""
        if len(self.ranges) + len(self.ops) < self._limit:
            self.ranges.append(known)
            self._count_room()
        else:
            self.dropped += 1

    def await_work(self, work: DeviceWork) -> None:
        """Keep pending work of a device until `await_devices` records its range."""
        if self.wanted.device and self._keeps_device and len(self.works) < self._limit:
            self.works.append(work)

    def began(self, name: str, category: str, more: Mapping[str, Any]) -> None:
        """Called when a block of the calling thread begins; `more` has the fields that are already
        known.
        """

    def ended(self) -> None:
        """Called when the calling thread's innermost block ends."""

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()


def range_of_op(
    name: str, start_ns: int, stop_ns: int, thread: tuple[int, str], node_id: int, number: int
) -> TimeRange:
    """Return the range of an op without further fields; `number` is its sequence_nr."""
    return TimeRange(name, "op", start_ns, stop_ns, *thread, node_id, sequence_nr=number)


class TimeRanges:
    """Passes ranges to all open recordings; `on` is True while there is one. A process has one
    object of this class, `time_ranges`.

    `node_id` is this process's worker id while it is in a group. `wanted` is the union of the
    fields that recordings request. `is_full` says whether a recording requests any field, or calls
    of `began`. `follows_calls` says whether a recording requests ranges of remote calls.
    `hearing_beginnings` has the recordings whose `began` must be called. `only` is the open
    recording if there is exactly one.
    """

    __slots__ = (
        "_listeners",
        "_listeners_lock",
        "_watchers",
        "follows_calls",
        "hearing_beginnings",
        "is_full",
        "node_id",
        "on",
        "only",
        "wanted",
    )

    def __init__(self) -> None:
        self.on = False
        self.is_full = False
        self.hearing_beginnings: tuple[Recording, ...] = ()
        self.follows_calls = False
        self.wanted = NOTHING
        self.node_id = -1
        self.only: Recording | None = None
        # Guards the two attributes below. The tuple _listeners is replaced and never changed, so
        # ranges are passed on without the lock.
        self._listeners_lock = threading.Lock()
        self._listeners: tuple[Recording, ...] = ()
        self._watchers: list[_Watcher] = []

    def watch(self, name: str, watcher: Callable[[bool], None]) -> None:
        """Call watcher(True) when the flag `name` becomes true, and watcher(False) when it becomes
        false. The flag is "on", "is_full" or a field of `wanted`.

        Note    the watcher must return quickly, because a lock is held during its call
        """
        with self._listeners_lock:
            self._watchers.append(_Watcher(name, watcher))
            self._watchers[-1].see(self._is(name))

    def _is(self, name: str) -> bool:
        return bool(getattr(self if name in ("on", "is_full") else self.wanted, name))

    def add(
        self, name: str, category: str, start_ns: int, stop_ns: int | None = None, **more: Any
    ) -> None:
        """Add a range of the calling thread. By default the range ends now. `more` has further
        fields of TimeRange.
        """
        stop_ns = clock() if stop_ns is None else stop_ns
        me, my_name = threading.get_ident(), own_thread.name_or_find()
        self.hand_in(
            TimeRange(name, category, start_ns, stop_ns, me, my_name, self.node_id, **more)
        )

    def add_op(self, name: str, start_ns: int, number: int) -> None:
        """Add the range of an op that the calling thread has just run, without further fields.
        `number` is the sequence_nr.
        """
        thread = own_thread.ident_and_name or own_thread.own()
        given = name, start_ns, clock(), thread, self.node_id, number
        for recording in self._listeners:
            ops = recording.ops
            if len(ops) < recording.most_ops:  # take_op, inlined
                ops.append(given)
            else:
                recording.take_op(given)

    def hand_in(self, known: TimeRange) -> None:
        """Pass a range to all recordings."""
        for recording in self._listeners:
            recording.take(known)

    def await_work(self, work: DeviceWork) -> None:
        """Pass a device's work to all recordings, which record its range when the work is done."""
        for recording in self._listeners:
            recording.await_work(work)

    def listeners(self) -> tuple[Recording, ...]:
        """Return the open recordings."""
        return self._listeners

    @staticmethod
    def thread_name() -> str:
        """Return the name of the calling thread that its ranges have as `thread_name`."""
        return own_thread.name_or_find()

    def listen(self, recording: Recording) -> None:
        """Pass all later ranges to a recording. If this raises an error, pass none."""
        with self._listeners_lock:
            before = self._listeners
            try:
                if recording not in before:
                    self._listeners = (*before, recording)
                self._look()
            except BaseException:
                self._listeners = before
                self._look()
                raise

    def forget(self, recording: Recording) -> None:
        """Stop passing ranges to a recording, if it is open."""
        with self._listeners_lock:
            self._listeners = tuple(r for r in self._listeners if r is not recording)
            self._look()

    def _look(self) -> None:
        wanted = functools.reduce(
            Wanted.or_those_of, [recording.wanted for recording in self._listeners], NOTHING
        )
        self.on, self.wanted = bool(self._listeners), wanted
        self.follows_calls = any(recording.follows_calls for recording in self._listeners)
        self.hearing_beginnings = tuple([r for r in self._listeners if r.hears_beginnings])
        self.is_full = wanted != NOTHING or bool(self.hearing_beginnings)
        self.only = self._listeners[0] if len(self._listeners) == 1 else None
        for watcher in self._watchers:
            watcher.see(self._is(watcher.name))


class _Watcher:
    """A function that is called when the flag `name` changes. If the function raises, the next
    check calls it again.
    """

    __slots__ = ("_knows", "_tell", "name")

    def __init__(self, name: str, tell: Callable[[bool], None]) -> None:
        self.name, self._tell, self._knows = name, tell, False

    def see(self, is_wanted: bool) -> None:
        if is_wanted != self._knows:
            self._tell(is_wanted)
            self._knows = is_wanted


class _Thread(threading.local):
    name: str | None = None
    ident_and_name: tuple[int, str] | None = None

    def own(self) -> tuple[int, str]:
        found = self.ident_and_name = threading.get_ident(), self.name_or_find()
        return found

    def name_or_find(self) -> str:
        if self.name is None:
            # current_thread() would register a dummy object for a thread that Python did not start.
            mine = threading.get_ident()
            names = [known.name for known in threading.enumerate() if known.ident == mine]
            self.name = names[0] if names else f"thread {mine}"
        return self.name


own_thread: Final = _Thread()
time_ranges: Final = TimeRanges()
time_ranges.watch("memory", memory_meter.switch)


class time_range:
    """Adds the time range of a `with` block, even if the block raises. An object must not be used
    again inside its own block.
    """

    __slots__ = ("_bytes_before", "_category", "_more", "_name", "_start_ns", "_thread", "_told")

    def __init__(self, name: str, category: str, **more: Any) -> None:
        self._name = name
        self._category = category
        self._more = more
        self._thread: tuple[int, str] | None = None

    def note(self, **more: Any) -> None:
        """Add fields to the range before it ends."""
        self._more |= more

    @property
    def is_left_open(self) -> bool:
        """Whether the range continues after the block."""
        return self._thread is not None

    def leave_open(self) -> None:
        """Let the range continue after the block, until `end_elsewhere` is called."""
        self._thread = threading.get_ident(), own_thread.name_or_find()

    def end_elsewhere(self) -> None:
        """Add the range from the start of the block until now. Any thread may call this."""
        if self._start_ns and self._thread is not None:
            known = TimeRange(self._name, self._category, self._start_ns, clock(), *self._thread)
            more = self._more | {"node_id": time_ranges.node_id, "is_async": True}
            time_ranges.hand_in(known._replace(**more))

    def __enter__(self) -> Self:
        wanted = time_ranges.wanted
        if wanted.stack:
            self.note(stack=python_stack())
        if wanted.modules:
            self.note(module=module_path.get())
        # Stored, so that each recording whose `began` was called also gets `ended`, even if it is
        # closed inside the block.
        self._told = time_ranges.hearing_beginnings
        for recording in self._told:
            recording.began(self._name, self._category, self._more)
        self._bytes_before = memory_meter.balance() if wanted.memory else None
        self._start_ns = clock() if time_ranges.on else 0
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._bytes_before is not None:
            (cpu, device), before = memory_meter.balance(), self._bytes_before
            self.note(memory_bytes=cpu - before.cpu, device_memory_bytes=device - before.device)
        if self._start_ns and self._thread is None:
            time_ranges.add(self._name, self._category, self._start_ns, **self._more)
        for recording in self._told:
            recording.ended()
