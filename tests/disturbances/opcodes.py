"""Tracing of each bytecode of Python that a thread executes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def trace_opcodes(trace: Callable[[FrameType, str, Any], Any] | None) -> None:
    """Let trace see what this thread does from now on, as sys.settrace, bytecodes included where it
    sets a frame's f_trace_opcodes.
    """
    # Python 3.12 traces bytecodes if a frame wanted them before the function was set; otherwise
    # only from the next function on.
    sys._getframe().f_trace_opcodes = True
    sys.settrace(trace)
