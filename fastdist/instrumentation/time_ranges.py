"""Named ranges of time, per thread: written by code that works, read by profilers.

Code on a hot path checks the flag first, and pays one attribute while nobody listens:

    start_ns = clock() if time_ranges.on else 0
    ...
    if start_ns:
        time_ranges.add("mul", "op", start_ns)

Elsewhere `with time_range("epoch 3", "user"):` is enough. Readers take a Recording.
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

# Monotonic and the same for all threads of a process; Recording.wall_offset_ns leads to the
# calendar, and so to the ranges of other processes.
clock: Final = time.perf_counter_ns
MOST_RANGES: Final = 1_000_000


class Wanted(NamedTuple):
    """The wanted fields of each range in addition to its name and its times: the shapes of an op's
    inputs, its floating-point operations, where in Python it began, the bytes that it took, the
    module whose call contains it, how long another device than the CPU worked for it.
    """

    shapes: bool = False
    flops: bool = False
    stack: bool = False
    memory: bool = False
    modules: bool = False
    device: bool = False

    def or_those_of(self, other: Wanted) -> Wanted:
        """Return the fields that either of the two wants."""
        return Wanted._make(map(operator.or_, self, other))

    def names(self) -> tuple[str, ...]:
        """Return the names of what is wanted, for `wanted_of`."""
        return tuple([name for name in self._fields if getattr(self, name)])


def wanted_of(names: Iterable[str]) -> Wanted:
    """Return the fields of these names; names that this version does not know are ignored.

    Note    another worker may have written them
    """
    return Wanted(**{name: True for name in names if name in Wanted._fields})


NOTHING: Final = Wanted()


class TimeRange(NamedTuple):
    """The work of a thread from start to stop.

    `node_id` is the worker id, -1 outside of RPC; `is_remote` marks a range that came with the
    answer to a call. An asynchronous range ends on another thread than it began on, and contains no
    others. A message and the work that it caused share one `flow_id`, which is 0 elsewhere. `flops`
    are an op's floating-point operations, `stack` the Python functions around it, the innermost
    first, `memory_bytes` and `device_memory_bytes` what its thread allocated meanwhile on the CPU
    and on other devices, less what it released. An op and its Node in a backward pass share one
    `sequence_nr`, which is -1 elsewhere. `module` is the path of the innermost module whose call
    its thread was in, as "Net.encoder.0". `device` is where its operands are, or where a kernel
    ran, as "cuda:0", "" for the CPU; an op and its work on a device share one `kernel_id`, which is
    0 elsewhere.

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
    """A device's work for an op; its times are known only once it is done."""

    def when_done(self) -> TimeRange | None:
        """Wait for it, and return its range, or None if it failed."""


class Recording:
    """All ranges that end between its start and its stop. `with Recording() as r:` does both.

    Thread  any
    Note    keeps the first `limit` ranges and counts the rest in `dropped`, so that a recording
            that somebody forgot does not eat the memory
    """

    # Whether it wants the ranges of calls on other workers, and whether its owner is warned if it
    # cannot get them.
    follows_calls = True
    warns_of_calls = False
    # Whether it is also notified of beginnings, by `began` and `ended`.
    hears_beginnings = False
    # Whether all ops are added to `ops` while it has fewer than `most_ops`, without take_op.
    adds_ops = True
    most_ops = 0

    def __init__(self, limit: int = MOST_RANGES, *, wanted: Wanted = NOTHING) -> None:
        self.wanted = wanted
        self.ranges: list[TimeRange] = []
        self.works: list[DeviceWork] = []
        # Ranges of ops without further data, as the arguments of `range_of_op`.
        self.ops: list[tuple[Any, ...]] = []
        self.dropped = 0
        self.wall_offset_ns = time.time_ns() - clock()
        self._limit = limit
        self._keeps_cpu = self._keeps_device = True
        self._count_room()

    def start(self) -> Self:
        """Listen from now on."""
        time_ranges.listen(self)
        return self

    def stop(self) -> list[TimeRange]:
        """Listen no more; return the ranges, in the order in which they began.

        Note    waits for devices that work for them; what fails there is raised elsewhere
        """
        time_ranges.forget(self)
        self.await_devices()
        ops, self.ops = self.ops, []
        self.ranges += [range_of_op(*one) for one in ops]
        # Sorted aside: a thread that is about to add its last range still has the old list.
        return sorted(self.ranges, key=lambda known: known.start_ns)

    def switch(self, *, cpu: bool | None = None, device: bool | None = None) -> None:
        """Keep from now on what happens on the CPU, or on other devices, or keep it no more; None
        leaves it as it is.
        """
        self._keeps_cpu = self._keeps_cpu if cpu is None else cpu
        self._keeps_device = self._keeps_device if device is None else device
        self._count_room()

    def _count_room(self) -> None:
        if self.adds_ops:
            self.most_ops = self._limit - len(self.ranges) if self._keeps_cpu else 0

    def await_devices(self) -> None:
        """Wait for pending work of devices, and keep its ranges."""
        works, self.works = self.works, []
        for work in works:
            known = work.when_done()
            if known is not None:
                self.keep(known)

    def take(self, known: TimeRange) -> None:
        """Hear of one range."""
        if self._keeps_device if known.category == "kernel" else self._keeps_cpu:
            self.keep(known)

    def take_op(self, given: tuple[Any, ...]) -> None:
        """Take the range of an op, as the arguments of `range_of_op`."""
        if not self._keeps_cpu:
            return
        if len(self.ops) < self.most_ops:
            self.ops.append(given)
        else:
            self.dropped += 1

    def keep(self, known: TimeRange) -> None:
        """Keep one range."""
        if len(self.ranges) + len(self.ops) < self._limit:
            self.ranges.append(known)
            self._count_room()
        else:
            self.dropped += 1

    def await_work(self, work: DeviceWork) -> None:
        """Add the range of a device's work, once it is done."""
        if self.wanted.device and self._keeps_device and len(self.works) < self._limit:
            self.works.append(work)

    def began(self, name: str, category: str, more: Mapping[str, Any]) -> None:
        """Hear that a block of the calling thread begins; more is what is known of it then."""

    def ended(self) -> None:
        """Handle the end of the calling thread's innermost block that began."""

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
    """Return the range of an op without further data; number is its sequence_nr."""
    return TimeRange(name, "op", start_ns, stop_ns, *thread, node_id, sequence_nr=number)


class TimeRanges:
    """The place where ranges are added; there is one, and `on` says whether anybody listens.

    `node_id` is this process's worker id while it is in a group; `wanted` is the union of the
    wanted fields of each range, `is_full` says whether that is more than its name and its times, or
    when it begins, and `follows_calls` whether the ranges of calls elsewhere are wanted;
    `hearing_beginnings` are the listeners that are notified when a block begins; `only` is the
    listener if there is one alone, and it keeps ops as they come.
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
        # Guards the two below it; _listeners is replaced and never changed: add reads it bare.
        self._listeners_lock = threading.Lock()
        self._listeners: tuple[Recording, ...] = ()
        self._watchers: list[_Watcher] = []

    def watch(self, name: str, watcher: Callable[[bool], None]) -> None:
        """Call watcher(True) when somebody begins to want what has this name in Wanted, or to
        listen at all ("on"), and watcher(False) when nobody does any more.

        Note    called under a lock: it must be short
        """
        with self._listeners_lock:
            self._watchers.append(_Watcher(name, watcher))
            self._watchers[-1].see(self._is(name))

    def _is(self, name: str) -> bool:
        return bool(getattr(self if name in ("on", "is_full") else self.wanted, name))

    def add(
        self, name: str, category: str, start_ns: int, stop_ns: int | None = None, **more: Any
    ) -> None:
        """Hand in a range of the calling thread, which ends now unless it is said when; more is
        what else a TimeRange has.
        """
        stop_ns = clock() if stop_ns is None else stop_ns
        me, my_name = threading.get_ident(), own_thread.name_or_find()
        self.hand_in(
            TimeRange(name, category, start_ns, stop_ns, me, my_name, self.node_id, **more)
        )

    def add_op(self, name: str, start_ns: int, number: int) -> None:
        """Hand in the range of an op of the calling thread, which ends now, without further data;
        number is its sequence_nr.
        """
        thread = own_thread.ident_and_name or own_thread.own()
        given = name, start_ns, clock(), thread, self.node_id, number
        for recording in self._listeners:
            ops = recording.ops
            if len(ops) < recording.most_ops:  # as take_op, without its call
                ops.append(given)
            else:
                recording.take_op(given)

    def hand_in(self, known: TimeRange) -> None:
        """Let all who listen have a range."""
        for recording in self._listeners:
            recording.take(known)

    def await_work(self, work: DeviceWork) -> None:
        """Give the range of a device's work to all observers, once it is done."""
        for recording in self._listeners:
            recording.await_work(work)

    def listeners(self) -> tuple[Recording, ...]:
        """Return who listens."""
        return self._listeners

    @staticmethod
    def thread_name() -> str:
        """Return the name of the calling thread, as its ranges have it."""
        return own_thread.name_or_find()

    def listen(self, recording: Recording) -> None:
        """Let a recording have all ranges from now on; if that fails, let it have none."""
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
        """Give a recording no more ranges. It need not be listening."""
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
    """A function that is called when a field becomes wanted, or no longer is; after an error it is
    called again.
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
            # Not current_thread(), which files a stand-in for threads that Python did not start.
            mine = threading.get_ident()
            names = [known.name for known in threading.enumerate() if known.ident == mine]
            self.name = names[0] if names else f"thread {mine}"
        return self.name


own_thread: Final = _Thread()
time_ranges: Final = TimeRanges()
time_ranges.watch("memory", memory_meter.switch)


class time_range:
    """Hand in the time that a block takes, even if it raises. Not to be entered twice at once."""

    __slots__ = ("_bytes_before", "_category", "_more", "_name", "_start_ns", "_thread", "_told")

    def __init__(self, name: str, category: str, **more: Any) -> None:
        self._name = name
        self._category = category
        self._more = more
        self._thread: tuple[int, str] | None = None

    def note(self, **more: Any) -> None:
        """Add facts to the range before it ends."""
        self._more |= more

    @property
    def is_left_open(self) -> bool:
        """Whether the block's end does not end the range."""
        return self._thread is not None

    def leave_open(self) -> None:
        """Let the end of the block be no end: end_elsewhere is."""
        self._thread = threading.get_ident(), own_thread.name_or_find()

    def end_elsewhere(self) -> None:
        """Hand in the time from the block's beginning until now, in whichever thread this is."""
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
        # Kept: each hears the end of what it heard the beginning of, though it listens no more.
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
