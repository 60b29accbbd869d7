"""The classes of profiler events, under PyTorch's module name."""

from __future__ import annotations

from ..core.missing import explain_missing
from ..profiler.events import EventList, FunctionEventAvg
from ..profiler.formatted import Formatted as FormattedTimesMixin
from ..profiler.function_event import FunctionEvent, Interval, Kernel

__all__ = [
    "EventList",
    "FormattedTimesMixin",
    "FunctionEvent",
    "FunctionEventAvg",
    "Interval",
    "Kernel",
]

explain_missing(__name__)
