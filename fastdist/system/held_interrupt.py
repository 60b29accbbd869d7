"""Delays Ctrl-C to the end of a block in which it would be lost or leave a partial state.

LLVM calls back into Python, and an exception in the callback cannot cross LLVM's C++ frames: ctypes
prints the exception and continues. If that exception is a KeyboardInterrupt, the program does not
stop, or a kernel has no code. Another case is the start of a process: after an interrupt, the
parent would not have the child's process id, which it needs to end the child.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

_held: list[Callable[[int, FrameType | None], Any]] = []


@contextlib.contextmanager
def interrupt_held() -> Iterator[None]:
    """Delay SIGINT: its handler is called at the end of the block, also after an error.

    Thread  any; handlers run in the main thread, so in other threads this does nothing
    Fork    a child that is forked in the block has the normal SIGINT handler
    Note    several signals count as one, as in Python
    """
    handler = signal.getsignal(signal.SIGINT)
    # SIG_DFL, SIG_IGN and handlers installed from C (None) cannot be called from Python.
    if not callable(handler) or threading.current_thread() is not threading.main_thread():
        yield
        return
    frames: list[FrameType | None] = []
    _held.append(handler)
    signal.signal(signal.SIGINT, lambda _, frame: frames.append(frame))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        _held.pop()
        if frames:
            # The handler is called directly: raising the signal again would wake an event loop
            # twice.
            handler(signal.SIGINT, frames[0])


def _let_go_in_child() -> None:
    if _held:
        signal.signal(signal.SIGINT, _held[0])


os.register_at_fork(after_in_child=_let_go_in_child)
