"""Tracing of each bytecode instruction that a thread executes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def trace_opcodes(trace: Callable[[FrameType, str, Any], Any] | None) -> None:
    """Install trace in this thread like sys.settrace. Frames with f_trace_opcodes also report each
    bytecode instruction.
    """
    # Python 3.12 traces bytecodes if a frame requested them before sys.settrace; otherwise only
    # from the next function on.
    sys._getframe().f_trace_opcodes = True
    sys.settrace(trace)
