"""Functions that are told of each bytecode of Python that a thread executes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def trace_opcodes(trace: Callable[[FrameType, str, Any], Any] | None) -> None:
    """Let trace see what this thread does from now on, as sys.settrace, bytecodes included where it
    sets a frame's f_trace_opcodes.
    """
    # Python 3.12 tells of bytecodes if a frame wanted them before the function was set; later ones
    # were told of from the second function on alone.
    sys._getframe().f_trace_opcodes = True
    sys.settrace(trace)
