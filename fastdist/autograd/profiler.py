"""The older interface of `fastdist.profiler`: a profile is one block, without a step schedule."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Self

from ..core.missing import explain_missing, instead
from ..profiler.activities import DeviceType, ProfilerActivity, activities_with
from ..profiler.emitted import emit_nvtx
from ..profiler.events import EventList, FunctionEventAvg, KeyAverages
from ..profiler.function_event import FunctionEvent
from ..profiler.profile import kineto_available
from ..profiler.profile import profile as _profile
from ..profiler.record_function import record_function

__all__ = [
    "DeviceType",
    "EventList",
    "FunctionEvent",
    "FunctionEventAvg",
    "ProfilerActivity",
    "emit_itt",
    "emit_nvtx",
    "kineto_available",
    "profile",
    "record_function",
]


class profile(KeyAverages):
    """`with profile() as p:` records the time of ops; `p.key_averages().table()` shows it.

    use_device="cuda" (or "sim") also records the time that the device spent on each op; use_cuda is
    the older name of that option. use_kineto is ignored.

    Raises  RuntimeError if the same object is entered again; NotImplementedError for use_cpu=False
    """

    def __init__(
        self,
        enabled: bool = True,
        *,
        use_cuda: bool = False,
        use_device: str | None = None,
        record_shapes: bool = False,
        with_flops: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_modules: bool = False,
        use_kineto: bool = False,
        use_cpu: bool = True,
        experimental_config: None = None,
        acc_events: bool = False,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
    ) -> None:
        self.enabled, self.entered = enabled, False
        self._events: EventList | None = None
        if not enabled:
            return
        if not use_cpu:
            raise NotImplementedError(
                "use_cpu=False: the work of a device is reported op by op, so ops must be recorded"
            )
        if use_cuda:
            warnings.warn(
                "The attribute `use_cuda` will be deprecated soon, please use "
                "``use_device = 'cuda'`` instead.",
                FutureWarning,
                stacklevel=2,
            )
        self._profile = _profile(
            activities=activities_with("cuda" if use_cuda else use_device),
            record_shapes=record_shapes,
            with_flops=with_flops,
            with_stack=with_stack,
            profile_memory=profile_memory,
            with_modules=with_modules,
            experimental_config=experimental_config,
            acc_events=acc_events,
            custom_trace_id_callback=custom_trace_id_callback,
            post_processing_timeout_s=post_processing_timeout_s,
        )

    def __enter__(self) -> Self:
        if self.enabled:
            if self.entered:
                raise RuntimeError("Profiler context manager is not reentrant")
            self.entered = True
            self._profile.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.enabled:
            self._profile.stop()
            self._events = self._profile.events()

    def _averaged(self) -> EventList:
        return self.function_events

    def __repr__(self) -> str:
        if self._events is None:
            return "<unfinished torch.autograd.profile>"
        return repr(self._events)

    def __str__(self) -> str:
        return repr(self) if self._events is None else self._events.table()

    @property
    def function_events(self) -> EventList:
        """The recorded events, in the order in which they began.

        Raises  RuntimeError inside of the block
        """
        if self._events is None:
            raise RuntimeError("Profiler didn't finish running")
        return self._events

    def total_average(self) -> FunctionEventAvg:
        """Return the sum of all events."""
        return self.function_events.total_average()

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
        """Return a table of all events; see EventList.table."""
        return self.function_events.table(
            *(sort_by, row_limit, max_src_column_width, max_name_column_width),
            *(max_shapes_column_width, header, top_level_events_only, time_unit),
        )

    def toggle_collection_dynamic(
        self, enabled: bool, activities: Iterable[ProfilerActivity]
    ) -> None:
        """Pause or resume recording of the given activities inside of the block."""
        if self.enabled:
            self._profile.toggle_collection_dynamic(enabled, activities)

    def export_chrome_trace(
        self,
        path: str,
        metadata: Mapping[str, str] | None = None,
        use_python_export: bool = False,
    ) -> None:
        """Write a file for chrome://tracing and Perfetto; `metadata` has values to add, as JSON."""
        self._require_ended()
        for key, value in (metadata or {}).items():
            self._profile.add_metadata_json(key, value)
        self._profile.export_chrome_trace(path)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write a file for flame graph tools: a line for each event with a stack."""
        self.function_events.export_stacks(path, metric)

    def export_html(self, path: str, title: str = "fastdist") -> None:
        """Write an HTML page with the time line; the page loads nothing from the network."""
        self._require_ended()
        self._profile.export_html(path, title)

    def _require_ended(self) -> None:
        _ = self.function_events

    @property
    def self_cpu_time_total(self) -> float:
        """The self CPU time of all events, in microseconds."""
        return self.function_events.self_cpu_time_total


class emit_itt:
    """PyTorch's ranges for Intel's ITT profilers: not supported.

    Raises  NotImplementedError if `enabled` is True
    """

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        if enabled:
            raise NotImplementedError(
                "emit_itt: fastdist sends no ranges to Intel's VTune; profile() records the same "
                "ranges, and emit_nvtx sends them to NVIDIA's profilers"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass


_NVPROF = "fastdist does not read files of nvprof, which NVIDIA has replaced by Nsight"
_RECORDER = (
    "part of PyTorch's own recorder, which fastdist does not have: profile() has the options"
)
instead(
    {
        f"{__name__}.load_nvprof": _NVPROF,
        f"{__name__}.parse_nvprof_trace": _NVPROF,
        f"{__name__}.EnforceUnique": _NVPROF,
        f"{__name__}.KinetoStepTracker": (
            "fastdist does not have PyTorch's recorder: profile.step_num counts the steps"
        ),
        f"{__name__}.MemRecordsAcc": "memory is reported per event: event.cpu_memory_usage",
        f"{__name__}.MEMORY_EVENT_NAME": "memory that no event allocates is not reported",
        f"{__name__}.OUT_OF_MEMORY_EVENT_NAME": (
            "running out of memory is not an event: it raises an error"
        ),
        f"{__name__}.ProfilerConfig": _RECORDER,
        f"{__name__}.ProfilerState": _RECORDER,
    }
)
explain_missing(__name__)
