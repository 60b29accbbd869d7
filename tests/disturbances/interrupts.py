"""Deliver Ctrl-C or another signal at each place in turn at which Python would handle signals."""

from __future__ import annotations

import dis
import gc
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from tests.disturbances.opcodes import call_traced

# After an instruction of these kinds, Python may handle a signal before the next instruction.
_LOOKS = ("CALL", "RESUME", "JUMP_BACKWARD")
# An exception: "CALL_INTRINSIC", with which Python 3.12 closes a generator, also begins with
# "CALL".
_BLIND = "CALL_INTRINSIC"


def _interrupt() -> None:
    raise KeyboardInterrupt


class Signal:
    """Runs a function, and runs a signal's handler at one of the places where Python handles
    signals.

    Note    a call of one Python function by another does not count as a place
    """

    def __init__(self, handler: Callable[[], object]) -> None:
        self.struck = False
        self._handler = handler
        self._left = 0
        # Whether the handler may run now, after the previous instruction, by frame.
        self._looks: dict[FrameType, bool] = {}

    def during(self, function: Callable[[], object], number: int) -> bool:
        """Call `function`. Run the handler at one place in it: place `number`, counted from 0.
        Return whether the handler ran.
        """
        self.struck, self._left = False, number
        collects = gc.isenabled()
        # The collector could run unrelated finalizers, and exceptions in finalizers are lost.
        gc.disable()
        try:
            call_traced(self._trace, function)
        except KeyboardInterrupt:
            assert self.struck
        finally:
            if collects:
                gc.enable()
            self._looks.clear()
        return self.struck

    def num_places(self, function: Callable[[], object]) -> int:
        """Return the number of places in `function`, which is called once before to fill caches."""
        function()
        self.during(function, sys.maxsize)
        return sys.maxsize - self._left

    def _trace(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "call":
            if frame.f_back is not None:
                self._looks[frame.f_back] = False
        elif event == "opcode" and not self.struck:
            name = dis.opname[frame.f_code.co_code[frame.f_lasti]]
            looks = self._looks.get(frame, False)
            self._looks[frame] = name.startswith(_LOOKS) and not name.startswith(_BLIND)
            if looks:
                self._left -= 1
                if self._left < 0:
                    self.struck = True
                    self._handler()
        return self._trace


def each_ctrl_c(
    prepare: Callable[[], Callable[[], object]], handler: Callable[[], object] = _interrupt
) -> Iterator[int]:
    """Interrupt the function that `prepare` returns at each place in turn; yield after each call.

    `prepare` is called for each place.

    Note    `handler`, if given, is the handler of another signal
    """
    assert threading.current_thread() is threading.main_thread()
    number = 0
    while Signal(handler).during(prepare(), number):
        yield number
        number += 1
