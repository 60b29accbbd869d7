"""Where a program's time goes, under PyTorch's names: `profile`, `record_function`, `schedule`.

While a profile records, ops go their general way and hand in what they took to
core/time_ranges.py; events.py shows what is read from there: tables, and traces for
chrome://tracing. Views are too short to be listed, kernels of a GPU are not seen, and a function
that is made of ops counts as these.
"""

from __future__ import annotations

from ..core.missing import explain_missing
from .profile import (
    ProfilerAction,
    ProfilerActivity,
    kineto_available,
    profile,
    record_function,
    schedule,
    supported_activities,
    tensorboard_trace_handler,
)

__all__ = [
    "ProfilerAction",
    "ProfilerActivity",
    "kineto_available",
    "profile",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]

explain_missing(__name__)
