"""Tracing of each bytecode instruction that a thread executes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, Final

# Python 3.13 traces no bytecode in the first traced call of a function since an untraced call.
FIRST_CALL_IS_BLIND: Final = sys.version_info >= (3, 13)


def trace_opcodes(trace: Callable[[FrameType, str, Any], Any] | None) -> None:
    """Install `trace` in this thread like `sys.settrace`.

    For frames with f_trace_opcodes it is also called for each bytecode instruction. With
    FIRST_CALL_IS_BLIND, call the functions also before the calls that count.
    """
    # Python 3.12 traces bytecode at once only if a frame has set f_trace_opcodes before
    # `sys.settrace`. Otherwise it begins with the next function.
    sys._getframe().f_trace_opcodes = True
    sys.settrace(trace)
