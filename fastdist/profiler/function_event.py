"""One event of a profile, and from when to when it was."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from ..instrumentation.time_ranges import TimeRange
from .activities import DeviceType, device_type_of
from .formatted import Formatted

_STEP: Final = re.compile(r"ProfilerStep#\d+")
# at::RecordScope of events that are not plain functions.
_SCOPES: Final = {"backward": 1, "user": 7}


class Interval(NamedTuple):
    """From when to when.

    Units   microseconds since the recording began
    """

    start: float
    end: float

    def elapsed_us(self) -> float:
        """Return how long it is."""
        return self.end - self.start


class Kernel(NamedTuple):
    """The work of a device for an op.

    Units   microseconds
    """

    name: str
    device: int
    duration: float


class FunctionEvent(Formatted):
    """One op, gradient, call or stretch of the user's; times are in microseconds.

    `self_cpu_time_total` is its time without that of the events inside of it; an asynchronous one,
    as a call to another worker, waits and has none. `node_id` is the worker on which it ran, -1
    outside of RPC, and `is_remote` says that it came with the answer to a call. `flops` are its
    floating-point operations, 0 where they are not recorded or not known; `stack` is where in
    Python it began, the innermost first, empty where that is not recorded. An op and its gradient
    have one `sequence_nr`, -1 elsewhere; the gradient, and what is inside of it, has the op's
    `stack` and `module_hierarchy`, the path of the module that it is a part of, and the op's thread
    as its `fwd_thread`. `scope` is 1 for a gradient, 7 for a stretch of the user's, else 0. Steps
    of a profile are one `name` in tables, and apart by their `trace_name`.

    `cause` is the op that a gradient or a kernel is of. `kernels` are what a device did for an op,
    `device_time_total` the time of these and of those inside of it; a kernel itself is an event as
    well, of another `device_type` than the CPU's and without time of the CPU. `use_device` is the
    kind of device that it had to do with, or None. `cpu_memory_usage` are the bytes that its thread
    took for results of ops while it ran, less those that it gave back, `self_cpu_memory_usage`
    without what is inside of it; and so `device_memory_usage` of other devices.
    """

    def __init__(self, known: TimeRange, origin_ns: int, number: int = 0) -> None:
        self.id = number
        self.trace_name = known.name
        self.name = self.key = _STEP.sub("ProfilerStep*", known.name)
        self.category = known.category
        self.thread = known.thread_id
        self.thread_name = known.thread_name
        start, end = ((t - origin_ns) / 1e3 for t in (known.start_ns, known.stop_ns))
        self.time_range = Interval(start, end)
        is_kernel = known.category == "kernel"
        self.cpu_time = self.cpu_time_total = 0.0 if is_kernel else end - start
        self.self_cpu_time_total = 0.0 if known.is_async else self.cpu_time
        self.device_time_total = self.self_device_time_total = end - start if is_kernel else 0.0
        self.kernels: list[Kernel] = []
        self.kernel_id = known.kernel_id
        kind, _, index = known.device.partition(":")
        self.use_device = kind or None
        self.device_type = device_type_of(known.device) if is_kernel else DeviceType.CPU
        self.device_index = int(index or 0)
        self.device_resource_id = known.thread_id
        self.device_memory_usage = self.self_device_memory_usage = known.device_memory_bytes
        self.node_id, self.is_remote = known.node_id, known.is_remote
        self.is_async, self.flow_id = known.is_async, known.flow_id
        self.is_user_annotation = known.category == "user"
        self.input_shapes = [list(shape) for shape in known.shapes]
        self.flops = known.flops
        self.stack = list(known.stack)
        self.module_hierarchy = known.module
        self.is_python_function = known.category == "module"
        self.sequence_nr = known.sequence_nr
        self.scope = _SCOPES.get(known.category, 0)
        self.fwd_thread: int | None = None
        self.cpu_memory_usage = self.self_cpu_memory_usage = known.memory_bytes
        self.count = 1
        self.cause: FunctionEvent | None = None
        self.cpu_parent: FunctionEvent | None = None
        self.cpu_children: list[FunctionEvent] = []

    @property
    def device_time(self) -> float:
        """The time of devices, as device_time_total."""
        return self.device_time_total

    @property
    def structured_input_shapes(self) -> list[list[int]]:
        """The same as input_shapes: ops do not take lists of tensors here."""
        return self.input_shapes

    def __repr__(self) -> str:
        start, end = self.time_range
        return (
            f"<FunctionEvent id={self.id} name={self.name} device_type={self.device_type} "
            f"node_id={self.node_id} cpu_time={self.cpu_time_str} start_us={start:.3f} "
            f"end_us={end:.3f} cpu_children={[child.id for child in self.cpu_children]} "
            f"device_time={self.device_time_str} thread={self.thread} "
            f"input_shapes={self.input_shapes} cpu_memory_usage={self.cpu_memory_usage} "
            f"device_memory_usage={self.device_memory_usage} is_async={self.is_async} "
            f"is_remote={self.is_remote} seq_nr={self.sequence_nr}>"
        )


class Arrow(NamedTuple):
    """From a moment of one event to a moment of another: a message or an op, and its result.

    Units   microseconds, as those of the events
    """

    sender: FunctionEvent
    sent_us: float
    receiver: FunctionEvent
    came_us: float
