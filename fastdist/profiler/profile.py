"""`profile`: records what ops, gradients and the user's own stretches take, step by step."""

from __future__ import annotations

import enum
import functools
import gzip
import os
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from ..core.missing import refusing
from ..core.time_ranges import Recording, clock, time_range, time_ranges
from ..graph.modes import count_special, count_tracers
from .events import EventList, events_of

F = TypeVar("F", bound=Callable[..., Any])


class ProfilerActivity(enum.Enum):
    """What may be recorded; here the CPU's work alone."""

    CPU = 0
    XPU = 1
    MTIA = 2
    CUDA = 3
    HPU = 4
    PrivateUse1 = 5


class ProfilerAction(enum.Enum):
    """What a profile does in a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


_RECORDING = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)


def supported_activities() -> set[ProfilerActivity]:
    """Return what is recorded."""
    return {ProfilerActivity.CPU}


def kineto_available() -> bool:
    """Return False: PyTorch's recorder of GPUs is not here."""
    return False


def schedule(
    *,
    wait: int,
    warmup: int,
    active: int,
    repeat: int = 0,
    skip_first: int = 0,
    skip_first_wait: int = 0,
) -> Callable[[int], ProfilerAction]:
    """Return what to do in which step: skip_first steps nothing, then, repeat times (0: for ever),
    wait steps nothing, warmup steps of work that is not kept, active steps that are; with
    skip_first_wait the first wait is left out.

    Raises  ValueError for negative numbers, or no active step
    """
    if min(wait, warmup, repeat, skip_first) < 0 or active <= 0:
        raise ValueError(
            f"Invalid profiler schedule arguments: wait={wait}, warmup={warmup}, active={active}, "
            f"repeat={repeat}, skip_first={skip_first}"
        )

    def act(step: int) -> ProfilerAction:
        if step < 0:
            raise ValueError(f"Step must be non-negative. Got {step}.")
        if step < skip_first:
            return ProfilerAction.NONE
        step -= skip_first
        if skip_first_wait:
            step += wait
        length = wait + warmup + active
        if repeat and step // length >= repeat:
            return ProfilerAction.NONE
        step %= length
        if step < wait:
            return ProfilerAction.NONE
        if step < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if step < length - 1 else ProfilerAction.RECORD_AND_SAVE

    return act


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False
) -> Callable[[profile], None]:
    """Return what writes each trace into a folder, where TensorBoard's plugin looks for them."""
    worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"

    def write(profiler: profile) -> None:
        os.makedirs(dir_name, exist_ok=True)
        end = ".pt.trace.json.gz" if use_gzip else ".pt.trace.json"
        path = os.path.join(dir_name, f"{worker}.{time.time_ns()}{end}")
        profiler.export_chrome_trace(path)

    return write


class record_function:
    """A stretch of the program under a name: a block or a decorator."""

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name = name
        # A stack: one object may be entered again before it is left.
        self._open: list[time_range] = []

    def __enter__(self) -> Self:
        self._open.append(time_range(self.name, "user"))
        self._open[-1].__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._open.pop().__exit__(kind, error, trace)

    def __call__(self, function: F) -> F:
        @functools.wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with record_function(self.name):
                return function(*args, **kwargs)

        return inside  # type: ignore[return-value]


class profile:
    """`with profile() as p:` records what ops take; `p.key_averages().table()` tells.

    With a schedule, `step()` ends a step, and on_trace_ready(p) is called when one that is to be
    saved ends; else at the end of the block. What else PyTorch records (shapes, memory, stacks,
    flops, modules) is taken and not recorded.

    Note    ops go their general way while it records, as they do under autocast, and gradients are
            made of them: both take longer than otherwise
    """

    def __init__(
        self,
        *,
        activities: Iterable[ProfilerActivity] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[[profile], Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        **more: Any,
    ) -> None:
        self.activities = set(activities) if activities else supported_activities()
        self.step_num = 0
        self.on_trace_ready = on_trace_ready
        self._schedule = schedule
        self._action = ProfilerAction.NONE
        self._recording: Recording | None = None
        self._events = EventList()
        self._step_began_ns = 0

    def start(self) -> None:
        """Begin the first step."""
        self._begin(self._next_action())

    def step(self) -> None:
        """End a step and begin the next."""
        ended = self._action
        self._tell_step()
        self.step_num += 1
        following = self._next_action()
        if ended is ProfilerAction.RECORD_AND_SAVE or following not in _RECORDING:
            self._end(saving=ended is ProfilerAction.RECORD_AND_SAVE)
        self._begin(following)

    def stop(self) -> None:
        """End the last step."""
        if self._schedule is not None:
            self._tell_step()
        self._end(saving=True)
        self._action = ProfilerAction.NONE

    def _next_action(self) -> ProfilerAction:
        return self._schedule(self.step_num) if self._schedule else ProfilerAction.RECORD

    def _begin(self, action: ProfilerAction) -> None:
        self._action = action
        if action in _RECORDING and self._recording is None:
            self._recording = Recording().start()
            count_special(1)
            count_tracers(1)
        self._step_began_ns = clock()

    def _tell_step(self) -> None:
        if self._recording is not None:
            time_ranges.add(f"ProfilerStep#{self.step_num}", "user", self._step_began_ns)

    def _end(self, *, saving: bool) -> None:
        if self._recording is None:
            return
        count_tracers(-1)
        count_special(-1)
        recording, self._recording = self._recording, None
        self._events = events_of(recording.stop())
        if saving and self.on_trace_ready is not None:
            self.on_trace_ready(self)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def events(self) -> EventList:
        """Return what the last recording has, in the order in which it began."""
        return self._events

    def key_averages(self, *args: Any, **kwargs: Any) -> EventList:
        """Return one average for each name of the last recording."""
        return self._events.key_averages(*args, **kwargs)

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write what chrome://tracing and Perfetto read, compressed if the name ends in .gz."""
        if not os.fspath(path).endswith(".gz"):
            self._events.export_chrome_trace(path)
            return
        with tempfile.TemporaryDirectory() as folder:
            plain = Path(folder) / "trace.json"
            self._events.export_chrome_trace(plain)
            with open(plain, "rb") as source, gzip.open(path, "wb") as target:
                shutil.copyfileobj(source, target)

    export_stacks = refusing(f"{__name__}.profile", "export_stacks", "stacks are not recorded")
    export_memory_timeline = refusing(
        f"{__name__}.profile", "export_memory_timeline", "memory is not recorded"
    )
