"""`profile`: records the times of ops, gradients and record_function blocks, step by step."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Final, Self

from ..core.folded_frames import folds
from ..core.missing import refusing
from ..graph import recordings
from ..instrumentation.time_ranges import Recording, TimeRange, Wanted, clock, time_ranges
from .activities import ProfilerActivity, activities_of, want_devices
from .events import EventList, KeyAverages, events_of
from .given import (
    action_at,
    is_asked_for,
    listed_activities,
    require_callable,
    require_observer,
    require_ready_handler,
    require_schedule,
    wanted_in_profile,
)
from .schedule import ProfilerAction

_RECORDING: Final = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)


def default_trace_id() -> str:
    """Return a unique id for a recording, in PyTorch's form."""
    return os.urandom(16).hex().upper()


def refuse_config(experimental_config: object) -> None:
    """Raise an error for any configuration of PyTorch's own recorder.

    Raises  NotImplementedError unless the configuration is None
    """
    if experimental_config is not None:
        raise NotImplementedError(
            "experimental_config is for Kineto, PyTorch's own recorder, which fastdist does not "
            "have; activities, record_shapes, with_stack and their like say what is recorded"
        )


def kineto_available() -> bool:
    """Return False, because Kineto, PyTorch's recorder of kernels, is not used."""
    return False


def tensorboard_trace_handler(
    dir_name: str,
    worker_name: str | None = None,
    use_gzip: bool = False,
    use_python_export: bool = False,
) -> Callable[[profile], None]:
    """Return a function that writes traces for TensorBoard's profiler plugin to a folder.

    Note    use_python_export is ignored
    """
    worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"

    def write(profiler: profile) -> None:
        os.makedirs(dir_name, exist_ok=True)
        end = ".pt.trace.json.gz" if use_gzip else ".pt.trace.json"
        path = os.path.join(dir_name, f"{worker}.{time.time_ns()}{end}")
        profiler.export_chrome_trace(path)

    return write


class profile(KeyAverages):
    """`with profile() as p:` records the times of ops; `p.key_averages().table()` prints them.

    With a schedule, `step()` ends a step, and on_trace_ready(p) is called after the last step of
    each recording. Without a schedule, on_trace_ready(p) is called at the end of the block. Remote
    calls are profiled on the other workers with the same options; their events are returned with
    the answers.

    Note    during a recording, ops take their general path, as under autocast, and gradients are
            computed by ops; both take longer than usual. An op of 9 us takes 1 us more with
            shapes, 0.3 us with flops, 3 us with stacks (more for deep stacks), 4 us with memory
    Raises  TypeError if an activity is not a ProfilerActivity; NotImplementedError if
            experimental_config is not None; AssertionError if activities is empty

    Args:
        activities: The kinds of work to record, such as [ProfilerActivity.CPU]. If None, all that
            are available. With CUDA (PrivateUse1 for `sim`), device events before and after each op
            measure its time on the device. All kernels that an op launched are reported as one.
        schedule: A function from the number of a step to its ProfilerAction. If None, all steps are
            recorded.
        on_trace_ready: A function that takes this profile at the end of each recording, or None.
        record_shapes: Whether to record the input shapes of ops.
        profile_memory: Whether to record the bytes that are allocated and freed. On the CPU these
            are only results of ops, so results of functions such as `ones` are not included. On
            other devices all bytes are included.
        with_stack: Whether to record the Python stack at the start of each event. A gradient has
            the stack of its op. In work for another worker, the stack ends at the called function.
        with_flops: Whether to count the operations of matrix products, convolutions, sums and
            elementwise products.
        with_modules: Whether to record calls of modules under PyTorch's names
            ("nn.Module: Linear_0"), and for each event the path of the module that contains it
            ("Net.encoder.0"). A gradient has the path of its op.
        experimental_config: Must be None: its values are options of PyTorch's own recorder.
        execution_trace_observer: An object with start(), stop() and cleanup(), called at the start
            and the end of each recording and at the end of the profile; None: no observer.
        acc_events: Whether to keep the events of earlier recordings when a new one begins.
        use_cuda: An older flag for recording CUDA; None: `activities` decides.
        custom_trace_id_callback: A function that returns an id for each recording. If None, ids
            are random.
        post_processing_timeout_s: Ignored.

    Example:
        >>> with torch.profiler.profile() as profile:
        ...     y = torch.ones(2, 2) @ torch.ones(2, 2)
        >>> any(event.key == "aten::mm" for event in profile.key_averages())
        True
    """

    @folds
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
        experimental_config: None = None,
        execution_trace_observer: Any = None,
        acc_events: bool = False,
        use_cuda: bool | None = None,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
    ) -> None:
        refuse_config(experimental_config)
        require_schedule(schedule)
        require_ready_handler(on_trace_ready)
        require_observer(execution_trace_observer)
        require_callable("custom_trace_id_callback", custom_trace_id_callback, "nothing", "uuid4")
        self.activities = activities_of(listed_activities(activities), use_cuda)
        self.record_shapes, self.with_flops = record_shapes, with_flops
        self.with_stack, self.with_modules = with_stack, with_modules
        self.profile_memory = profile_memory
        self._wanted()  # raises an error for an invalid flag, before recording begins
        self.acc_events = is_asked_for("profile(acc_events)", acc_events)
        self.execution_trace_observer = execution_trace_observer
        self.custom_trace_id_callback = custom_trace_id_callback
        self.step_num = 0
        self.on_trace_ready = on_trace_ready
        self.current_action = ProfilerAction.NONE
        self._schedule = schedule
        self._recording: Recording | None = None
        self._warmup: Recording | None = None
        self._ranges: list[TimeRange] = []
        self._events = EventList()
        self._step_began_ns = 0
        self._trace_id = ""
        self._metadata: dict[str, Any] = {}

    def start(self) -> None:
        """Begin the first step."""
        self._begin(self._next_action())

    def prepare_trace(self) -> None:
        """Do nothing: recording needs no preparation."""

    start_trace = start

    def step(self) -> None:
        """End a step and begin the next."""
        ended = self.current_action
        self._tell_step()
        self.step_num += 1
        following = self._next_action()
        if following is not ProfilerAction.WARMUP:
            self._end_warmup()
        if ended is ProfilerAction.RECORD_AND_SAVE or following not in _RECORDING:
            self._end(saving=ended is ProfilerAction.RECORD_AND_SAVE)
        self._begin(following)

    def stop(self) -> None:
        """End the last step."""
        if self._schedule is not None:
            self._tell_step()
        self._end_warmup()
        self._end(saving=True)
        self.current_action = ProfilerAction.NONE
        if self.execution_trace_observer is not None:
            self.execution_trace_observer.cleanup()

    stop_trace = stop

    def _next_action(self) -> ProfilerAction:
        return action_at(self._schedule, self.step_num)

    def _begin(self, action: ProfilerAction) -> None:
        self.current_action = action
        if action in _RECORDING and self._recording is None:
            if self.execution_trace_observer is not None:
                self.execution_trace_observer.start()
            make_id = self.custom_trace_id_callback or default_trace_id
            self._trace_id = make_id()
            recordings.begin(recording := Recording(wanted=self._wanted()))
            self._recording = recording
        elif action is ProfilerAction.WARMUP and self._warmup is None:
            # In a warmup, ops take the same path as in a recording. So their caches are filled, and
            # kernels that are compiled on first use are ready.
            recordings.begin(recording := Recording(limit=0, wanted=self._wanted()))
            self._warmup = recording
        self._step_began_ns = clock()

    def _end_warmup(self) -> None:
        if self._warmup is not None:
            warmup, self._warmup = self._warmup, None
            recordings.end(warmup)

    def _wanted(self) -> Wanted:
        return wanted_in_profile(
            shapes=self.record_shapes,
            flops=self.with_flops,
            stack=self.with_stack,
            memory=self.profile_memory,
            modules=self.with_modules,
            device=want_devices(self.activities),
        )

    def _tell_step(self) -> None:
        if self._recording is not None:
            time_ranges.add(f"ProfilerStep#{self.step_num}", "user", self._step_began_ns)

    def _end(self, *, saving: bool) -> None:
        if self._recording is None:
            return
        recording, self._recording = self._recording, None
        ranges = recordings.end(recording)
        self._ranges = [*self._ranges, *ranges] if self.acc_events else ranges
        self._events = events_of(self._ranges)
        if self.execution_trace_observer is not None:
            self.execution_trace_observer.stop()
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

    def _averaged(self) -> EventList:
        return self._events

    def events(self) -> EventList:
        """Return the events of the last recording, in the order in which they began."""
        return self._events

    def add_metadata(self, key: str, value: str) -> None:
        """Add a text under the name `key` to the traces of this profile."""
        self._metadata[key] = str(value)

    def add_metadata_json(self, key: str, value: str) -> None:
        """Add a value, given as JSON, under the name `key` to the traces of this profile.

        Raises  ValueError for invalid JSON
        """
        self._metadata[key] = json.loads(value)

    preset_metadata_json = add_metadata_json

    def set_custom_trace_id_callback(self, callback: Callable[[], str]) -> None:
        """Use callback() to make the ids of all later recordings."""
        self.custom_trace_id_callback = callback

    def get_trace_id(self) -> str | None:
        """Return the id of the last recording, or None before the first recording."""
        return self._trace_id or None

    def toggle_collection_dynamic(
        self, enable: bool, activities: Iterable[ProfilerActivity]
    ) -> None:
        """Pause or resume the recording of these activities in the current recording."""
        known = set(activities)
        if self._recording is not None:
            self._recording.switch(
                cpu=enable if ProfilerActivity.CPU in known else None,
                device=enable if want_devices(known) else None,
            )

    def export_chrome_trace(
        self, path: str | os.PathLike[str], use_python_export: bool = False
    ) -> None:
        """Write a trace for chrome://tracing and Perfetto; compress it if path ends in .gz."""
        from .trace import Trace  # imported on use, because few profiles are written

        told = {"record_shapes", "profile_memory", "with_stack", "with_modules", "with_flops"}
        asked = {name: 1 for name in sorted(told) if getattr(self, name)}
        metadata = {"trace_id": self._trace_id, **asked, **self._metadata}
        Trace(self._events, metadata=metadata).export(path)

    def export_html(self, path: str | os.PathLike[str], title: str = "fastdist") -> None:
        """Write an HTML page with the time line; the page works without a network."""
        self._events.export_html(path, title)

    def export_stacks(
        self, path: str | os.PathLike[str], metric: str = "self_cpu_time_total"
    ) -> None:
        """Write stacks for flame graph tools, one line per event that has a stack."""
        self._events.export_stacks(path, metric)

    export_memory_timeline = refusing(
        f"{__name__}.profile", "export_memory_timeline", "memory is only reported op by op"
    )
