"""The profiler, under PyTorch's names: `profile`, `record_function`, `schedule`.

While a profile records, ops take their general path and report their times to
instrumentation/time_ranges.py, and graph/recordings.py notifies other packages. events.py has
the recorded events, table.py prints tables, and trace.py writes traces for chrome://tracing and
HTML pages. activities.py lists the kinds of recorded work. given.py validates arguments; a flag may
be any value with a truth value. emitted.py sends ranges to NVIDIA's profilers. Events have
PyTorch's names for ops (dispatch/declaration.py). If a function is made of ops, its event contains
the events of these ops. The work of a GPU is reported for each op, not for each kernel.
"""

from __future__ import annotations

from ..core.missing import explain_missing, instead
from . import profiler
from .activities import DeviceType, ProfilerActivity, supported_activities
from .profile import kineto_available, profile, tensorboard_trace_handler
from .record_function import record_function
from .schedule import ProfilerAction, schedule

__all__ = [
    "DeviceType",
    "ProfilerAction",
    "ProfilerActivity",
    "kineto_available",
    "profile",
    "profiler",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]

instead(
    {
        f"{__name__}.itt": "fastdist sends nothing to Intel's VTune: cuda.nvtx marks "
        "ranges for NVIDIA's Nsight",
        f"{__name__}.ExecutionTraceObserver": "graphs of ops are not recorded: profile's "
        "execution_trace_observer takes any object with start(), stop() and cleanup()",
        f"{__name__}.KinetoStepTracker": "fastdist does not have PyTorch's recorder: "
        "profile.step_num counts the steps",
        f"{__name__}.RecordScope": "an event's scope is a number: 0 an op, 1 a gradient, 7 the "
        "user's own",
    }
)
explain_missing(__name__)
