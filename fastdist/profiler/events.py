"""The recorded events and their averages; exports to tables, traces and pages."""

from __future__ import annotations

import operator
import os
import re
from collections.abc import Sequence
from typing import Any, Final, Self

from ..instrumentation.time_ranges import TimeRange
from .activities import DeviceType
from .formatted import Formatted
from .function_event import FunctionEvent, Kernel
from .given import is_asked_for

_STACK_METRICS: Final = tuple(
    [f"self_{kind}_time_total" for kind in ("cpu", "cuda", "xpu", "privateuse1")]
)
_DEVICES: Final = re.compile("cuda|xpu|privateuse1")
_ROWS_OF_A_CELL: Final = 40  # the most rows that a notebook shows
_NO_SEPARATORS: Final = str.maketrans(" ;\t\n", "____")


class FunctionEventAvg(Formatted):
    """The sum of events that have one name, or of such sums; times are in microseconds.

    Note    fields that cannot be summed, such as `stack`, are taken from the first event
    """

    def __init__(self, key: str = "", events: Sequence[Any] = ()) -> None:
        self.key = key
        self.node_id = -1
        self.scope = 0
        self.is_remote = self.is_async = self.is_user_annotation = False
        self.cpu_parent: FunctionEvent | None = None
        self.cpu_children: list[FunctionEvent] = []
        self.device_type, self.use_device = DeviceType.CPU, None
        self.input_shapes: list[list[int]] | str = ""
        self.stack: list[str] = []
        self.module_hierarchy = ""
        self.count = self.flops = 0
        self.cpu_time_total = self.self_cpu_time_total = 0.0
        self.device_time_total = self.self_device_time_total = 0.0
        self.cpu_memory_usage = self.self_cpu_memory_usage = 0
        self.device_memory_usage = self.self_device_memory_usage = 0
        for event in events:
            self._add(event)

    def add(self, other: Any) -> Self:
        """Add an event, or another FunctionEventAvg, that has the same name.

        Raises  AssertionError if the name differs
        """
        if self.count and other.key != self.key:
            raise AssertionError(f"Expected keys to match, but got {other.key} vs {self.key}")
        self.key = other.key
        self._add(other)
        return self

    __iadd__ = add

    def _add(self, other: Any) -> None:
        if not self.count:
            for name in _OF_THE_FIRST:
                setattr(self, name, getattr(other, name))
        self.is_remote = self.is_remote or other.is_remote
        self.use_device = self.use_device or other.use_device
        self.count += other.count
        self.flops += other.flops
        for name in _OF_ITS_OWN:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        # If `other` is inside an event of the same name, that event already includes its time.
        if not _inside_its_like(other):
            for name in _WITH_WHAT_IS_INSIDE:
                setattr(self, name, getattr(self, name) + getattr(other, name))

    @property
    def cpu_time(self) -> float:
        """The mean time per event, in microseconds."""
        return self.cpu_time_total / max(self.count, 1)

    @property
    def device_time(self) -> float:
        """The mean device time per event, in microseconds."""
        return self.device_time_total / max(self.count, 1)

    def __repr__(self) -> str:
        return (
            f"<FunctionEventAvg key={self.key} self_cpu_time={self.self_cpu_time_total_str} "
            f"cpu_time={self.cpu_time_str} self_device_time={self.self_device_time_total_str} "
            f"device_time={self.device_time_str} count={self.count} "
            f"input_shapes={self.input_shapes} cpu_memory_usage={self.cpu_memory_usage} "
            f"device_memory_usage={self.device_memory_usage}>"
        )


_OF_THE_FIRST: Final = (
    *("node_id", "scope", "is_async", "is_user_annotation", "device_type"),
    *("cpu_parent", "cpu_children"),
)
_OF_ITS_OWN: Final = (
    *("self_cpu_time_total", "self_device_time_total"),
    *("self_cpu_memory_usage", "self_device_memory_usage"),
)
_WITH_WHAT_IS_INSIDE: Final = tuple([name.removeprefix("self_") for name in _OF_ITS_OWN])


def _inside_its_like(event: Any) -> bool:
    parent = None if isinstance(event, FunctionEventAvg) else event.cpu_parent
    while parent is not None and parent.name != event.name:
        parent = parent.cpu_parent
    return parent is not None


class EventList(list[Any]):
    """A list of events or of averages, which can be grouped, printed and exported."""

    @property
    def self_cpu_time_total(self) -> float:
        """The total time of all events, without counting any period twice."""
        return float(sum(event.self_cpu_time_total for event in self))

    def key_averages(
        self,
        group_by_input_shapes: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
        *,
        group_by_module: bool = False,
    ) -> EventList:
        """Return one average for each name and worker, in order of first occurrence.

        With the flags, events are also grouped by input shapes, by the group_by_stack_n innermost
        functions of the stack, or by the module that contains them. group_by_overload_name has no
        effect, because ops have no overloads here.

        Raises  TypeError or ValueError if group_by_stack_n is not a number of functions; TypeError
                for a flag without a truth value
        """
        by_shapes = is_asked_for("key_averages(group_by_input_shape)", group_by_input_shapes)
        by_module = is_asked_for("key_averages(group_by_module)", group_by_module)
        is_asked_for("key_averages(group_by_overload_name)", group_by_overload_name)
        group_by_stack_n = _number_of_functions(group_by_stack_n)
        groups: dict[tuple[Any, ...], list[FunctionEvent]] = {}
        for event in self:
            shapes = str(event.input_shapes) if by_shapes else ""
            stack = tuple(event.stack[:group_by_stack_n])
            module = event.module_hierarchy if by_module else ""
            key = (event.name, event.node_id, shapes, stack, module, event.device_type)
            groups.setdefault(key, []).append(event)
        averages = EventList(FunctionEventAvg(key[0], events) for key, events in groups.items())
        for average, (key, events) in zip(averages, groups.items(), strict=True):
            average.stack, average.module_hierarchy = list(key[3]), key[4]
            if by_shapes:
                average.input_shapes = events[0].input_shapes
        return averages

    def total_average(self) -> FunctionEventAvg:
        """Return the sum of all events as one entry."""
        return FunctionEventAvg("Total", self)

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int | None = 75,
        max_name_column_width: int | None = 55,
        max_shapes_column_width: int | None = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
        time_unit: str | None = None,
    ) -> str:
        """Return a table with one row per entry. If sort_by is given, rows are sorted by this
        column, and the largest value comes first.

        Raises  ValueError for an unknown column or unit
        Note    a name that is too long is cut in the middle, because the end of the name of a
                remote call shows which op ran
        """
        from .table import Form, table_of  # imported on use, because few workers print tables

        form = Form(
            *(sort_by, row_limit, max_src_column_width, max_name_column_width),
            *(max_shapes_column_width, header, top_level_events_only, time_unit),
        )
        return table_of(self, self.self_cpu_time_total, form)

    def __str__(self) -> str:
        return self.table()

    def _repr_html_(self) -> str:
        """Return a table for a notebook, with the entries that have the longest times."""
        from .table import Form, html_of

        form = Form("self_cpu_time_total", _ROWS_OF_A_CELL, 75, 55, 80, None, False, None)
        return html_of(self, self.self_cpu_time_total, form)

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write a trace for chrome://tracing and Perfetto; compress it if path ends in .gz."""
        from .trace import Trace

        Trace(self).export(path)

    def supported_export_stacks_metrics(self) -> list[str]:
        """Return the metrics that export_stacks accepts."""
        return list(_STACK_METRICS)

    def export_stacks(
        self, path: str | os.PathLike[str], metric: str = "self_cpu_time_total"
    ) -> None:
        """Write stacks for flame graph tools. Each event that has a stack is one line: its
        functions, outermost first, and the microseconds of the metric.

        Raises  ValueError for a metric that is not a self time
        """
        if metric not in _STACK_METRICS:
            raise ValueError(f"metric should be one of: {list(_STACK_METRICS)}, got {metric!r}")
        with open(path, "w", encoding="utf-8") as file:
            for event in self:
                time_us = int(getattr(event, _DEVICES.sub("device", metric)))
                if event.stack and time_us > 0:
                    entries = [entry.translate(_NO_SEPARATORS) for entry in reversed(event.stack)]
                    file.write(f"{';'.join(entries)} {time_us}\n")

    def export_html(self, path: str | os.PathLike[str], title: str = "fastdist") -> None:
        """Write an HTML page with the time line; the page works without a network."""
        from .trace import Trace

        Trace(self).export_html(path, title)


def events_of(ranges: Sequence[TimeRange]) -> EventList:
    """Return the events of ranges, in the order in which they began. Each event is linked to the
    events inside it.
    """
    origin_ns = ranges[0].start_ns if ranges else 0
    events = EventList()
    open_ones: dict[tuple[int, bool, int], list[FunctionEvent]] = {}
    # If two events begin at the same time, the longer event is the outer event.
    for known in sorted(ranges, key=lambda one: (one.start_ns, -one.stop_ns)):
        event = FunctionEvent(known, origin_ns, len(events))
        events.append(event)
        if event.is_async:
            continue
        stack = open_ones.setdefault((event.node_id, event.is_remote, event.thread), [])
        while stack and stack[-1].time_range.end < event.time_range.end:
            stack.pop()
        if stack:
            event.cpu_parent = stack[-1]
            stack[-1].cpu_children.append(event)
            stack[-1].self_cpu_time_total -= event.cpu_time
            stack[-1].self_cpu_memory_usage -= event.cpu_memory_usage
            stack[-1].self_device_memory_usage -= event.device_memory_usage
        stack.append(event)
    _give_kernels(events)
    _lead_gradients_to_ops(events)
    return events


def _give_kernels(events: Sequence[FunctionEvent]) -> None:
    """Add the time of each op's device work to this op, and to the events that contain it."""
    ops = {(e.node_id, e.kernel_id): e for e in events if e.kernel_id and e.category != "kernel"}
    for event in events:
        op = ops.get((event.node_id, event.kernel_id))
        if event.category == "kernel" and op is not None:
            took_us = event.time_range.elapsed_us()
            event.cause = op
            op.kernels.append(Kernel(event.name, event.device_index, took_us))
            op.self_device_time_total += took_us
            around: FunctionEvent | None = op
            while around is not None:
                around.device_time_total += took_us
                around.use_device = around.use_device or event.use_device
                around = around.cpu_parent


def _lead_gradients_to_ops(events: Sequence[FunctionEvent]) -> None:
    """Give each gradient, and all events inside it, the thread, stack and module of its op."""
    ops: dict[tuple[int, int], FunctionEvent] = {}
    for event in events:
        if event.sequence_nr >= 0 and event.category == "op":
            ops.setdefault((event.node_id, event.sequence_nr), event)
    for event in events:  # an event comes before the events inside it
        if event.category == "backward":
            op = ops.get((event.node_id, event.sequence_nr))
            if op is not None:
                event.cause = op
                _be_of(event, op.thread, op)
        elif (around := event.cpu_parent) is not None and around.fwd_thread is not None:
            _be_of(event, around.fwd_thread, around)


def _be_of(event: FunctionEvent, thread: int, other: FunctionEvent) -> None:
    event.fwd_thread, event.stack = thread, other.stack
    event.module_hierarchy = other.module_hierarchy


class KeyAverages:
    """The averages of a profile's events by name."""

    def _averaged(self) -> EventList:
        """Return the recorded events, in the order in which they began."""
        raise NotImplementedError

    def _repr_html_(self) -> str | None:
        """Return a table for a notebook, with the entries that have the longest times."""
        return self.key_averages()._repr_html_()

    def key_averages(
        self,
        group_by_input_shape: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
        *,
        group_by_module: bool = False,
    ) -> EventList:
        """Return one average for each name and worker; see EventList.key_averages."""
        return self._averaged().key_averages(
            *(group_by_input_shape, group_by_stack_n, group_by_overload_name),
            group_by_module=group_by_module,
        )


def _number_of_functions(given: object) -> int:
    try:
        number = operator.index(given)  # type: ignore[arg-type]
    except TypeError:
        number = -1
        error: type[Exception] = TypeError
    else:
        error = ValueError
    if number < 0:
        raise error(
            "key_averages(group_by_stack_n=...): expected how many of the innermost functions tell "
            f"events of one name apart, 0 or more, got {given!r}"
        )
    return number
