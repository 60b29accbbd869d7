"""The names of this package that PyTorch has in its file profiler.py."""

from __future__ import annotations

from ..core.missing import explain_missing
from .profile import profile, tensorboard_trace_handler
from .schedule import ProfilerAction, schedule

__all__ = ["ProfilerAction", "profile", "schedule", "tensorboard_trace_handler"]

explain_missing(__name__)
