"""One event of a profile, and its time interval."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from ..instrumentation.time_ranges import TimeRange
from .activities import DeviceType, device_type_of
from .formatted import Formatted

_STEP: Final = re.compile(r"ProfilerStep#\d+")
# The values of at::RecordScope for events that are not plain functions.
_SCOPES: Final = {"backward": 1, "user": 7}


class Interval(NamedTuple):
    """A time interval.

    Units   microseconds since the recording began
    """

    start: float
    end: float

    def elapsed_us(self) -> float:
        """Return the length of the interval."""
        return self.end - self.start


class Kernel(NamedTuple):
    """The work of a device for an op.

    Units   microseconds
    """

    name: str
    device: int
    duration: float


class FunctionEvent(Formatted):
    """One op, gradient, remote call or record_function block; times are in microseconds.

    `self_cpu_time_total` excludes the events inside this event. It is 0 for an asynchronous event,
    such as a remote call, which only waits. `node_id` is the worker on which the event ran, or -1
    outside of RPC. `is_remote` means that the event was received with the answer to a call. `flops`
    is the number of floating-point operations, or 0 if it is not recorded or not known. `stack` is
    the Python stack at the start, innermost function first, or empty if it is not recorded. An op
    and its gradient have the same `sequence_nr`; other events have -1. A gradient, and the events
    inside it, have the `stack` and the `module_hierarchy` of the op, and `fwd_thread` is the op's
    thread. `module_hierarchy` is the path of the module that contains an event. `scope` is 1 for a
    gradient, 7 for a record_function block, and 0 otherwise. All steps of a profile have the same
    `name`, which tables show, but different values of `trace_name`.

    `cause` is the op to which a gradient or a kernel belongs. `kernels` lists the device work of an
    op. `device_time_total` is the time of this work, and of the device work of inner events. A
    kernel is an event too; its `device_type` is not the CPU, and it has no CPU time. `use_device`
    is the kind of device that the event used, or None. `cpu_memory_usage` is the number of bytes
    that the event's thread allocated for results of ops during the event, minus the bytes that were
    freed. `self_cpu_memory_usage` excludes inner events. `device_memory_usage` and
    `self_device_memory_usage` are the same numbers for other devices.
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
        """The same as device_time_total."""
        return self.device_time_total

    @property
    def structured_input_shapes(self) -> list[list[int]]:
        """The same as input_shapes, because no op in fastdist takes lists of tensors."""
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
    """An arrow from a point of time in one event to a point of time in another. The arrow leads
    from a message or an op to its result.
    Units   microseconds, as for events
    """

    sender: FunctionEvent
    sent_us: float
    receiver: FunctionEvent
    came_us: float
