"""The older names of `fastdist.profiler`: one block, no steps."""

from __future__ import annotations

import contextlib
from types import TracebackType
from typing import Any, Self

from ..core.missing import explain_missing
from ..profiler.events import EventList, FunctionEvent, FunctionEventAvg
from ..profiler.profile import ProfilerActivity, kineto_available, record_function
from ..profiler.profile import profile as _profile

__all__ = [
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


class profile:
    """`with profile() as p:` records what ops take; `p.key_averages().table()` tells.

    What else PyTorch records (GPUs, shapes, memory, stacks) is taken and not recorded.
    """

    def __init__(self, enabled: bool = True, **more: Any) -> None:
        self.enabled = enabled
        self._profile = _profile()
        self.function_events: EventList | None = None

    def __enter__(self) -> Self:
        if self.enabled:
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
            self.function_events = self._profile.events()

    def _ended(self) -> EventList:
        if self.function_events is None:
            raise RuntimeError("Profiler didn't finish running")
        return self.function_events

    def key_averages(self, *args: Any, **kwargs: Any) -> EventList:
        """Return one average for each name."""
        return self._ended().key_averages(*args, **kwargs)

    def total_average(self) -> FunctionEventAvg:
        """Return the sum of all."""
        return self._ended().total_average()

    def table(self, *args: Any, **kwargs: Any) -> str:
        """Return a table of all events."""
        return self._ended().table(*args, **kwargs)

    def export_chrome_trace(self, path: str) -> None:
        """Write what chrome://tracing and Perfetto read."""
        self._ended()
        self._profile.export_chrome_trace(path)

    @property
    def self_cpu_time_total(self) -> float:
        """The time of all events, in microseconds."""
        return self._ended().self_cpu_time_total


class emit_nvtx(contextlib.nullcontext[None]):
    """A block that tells NVIDIA's profilers nothing yet."""

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        super().__init__()


emit_itt = emit_nvtx

explain_missing(__name__)
