"""Where a program's time goes, under PyTorch's names: `profile`, `record_function`, `schedule`.

While a profile records, ops take their general path and hand in what they took to
instrumentation/time_ranges.py; graph/recordings.py tells other rooms of it. events.py shows what is
read from there, table.py as tables, trace.py as traces for chrome://tracing and as pages.
activities.py has whose work is recorded, given.py refuses what profiles cannot take (a flag is
anything that `if` takes for true or not, in the profiles of all rooms alike), emitted.py tells
NVIDIA's profilers. Events have PyTorch's names for ops
(dispatch/pytorch_names.py); a function that is made of ops has one around theirs. A GPU's work is
told op by op and not kernel by kernel.
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
        f"{__name__}.itt": "nothing is told to Intel's VTune here: cuda.nvtx tells NVIDIA's Nsight",
        f"{__name__}.ExecutionTraceObserver": "graphs of ops are not recorded: profile's "
        "execution_trace_observer takes any object with start(), stop() and cleanup()",
        f"{__name__}.KinetoStepTracker": "PyTorch's recorder is not here: profile.step_num counts",
        f"{__name__}.RecordScope": "an event's scope is a number: 0 an op, 1 a gradient, 7 the "
        "user's own",
    }
)
explain_missing(__name__)
