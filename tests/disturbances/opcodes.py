"""Tracing of each bytecode instruction that a thread executes."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, Final, TypeVar

T = TypeVar("T")
Trace = Callable[[FrameType, str, Any], Any]

_TOOL: Final = 4  # a number that neither debuggers nor coverage use


def call_traced(trace: Trace, function: Callable[[], T]) -> T:
    """Call `function`, and `trace` in this thread like the function of `sys.settrace`, but for each
    bytecode instruction instead of each line.

    No instruction of this function is traced, so `trace` may raise any exception.
    """
    before = sys.gettrace()
    monitoring: Any = getattr(sys, "monitoring", None)
    thread = threading.get_ident()

    def calls(frame: FrameType, event: str, argument: Any) -> Any:
        frame.f_trace_lines, frame.f_trace_opcodes = False, monitoring is None
        return trace(frame, event, argument)

    def steps(_code: CodeType, _offset: int) -> None:
        frame = sys._getframe(1)
        if frame.f_trace is not None and threading.get_ident() == thread:
            frame.f_trace(frame, "opcode", None)

    try:
        # From Python 3.12 on, settrace reports no instructions in a function's first traced call.
        if monitoring is not None:
            monitoring.use_tool_id(_TOOL, __name__)
            monitoring.register_callback(_TOOL, monitoring.events.INSTRUCTION, steps)
            monitoring.set_events(_TOOL, monitoring.events.INSTRUCTION)
        sys.settrace(calls)
        return function()
    finally:
        sys.settrace(before)
        if monitoring is not None:
            monitoring.set_events(_TOOL, 0)
            monitoring.free_tool_id(_TOOL)
