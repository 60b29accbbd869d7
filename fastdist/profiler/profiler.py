"""The names that PyTorch has in profiler/profiler.py, and fastdist in other files."""

from __future__ import annotations

from ..core.missing import explain_missing
from .profile import profile, tensorboard_trace_handler
from .schedule import ProfilerAction, schedule

__all__ = ["ProfilerAction", "profile", "schedule", "tensorboard_trace_handler"]

explain_missing(__name__)
