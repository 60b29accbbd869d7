"""Ctrl-C while LLVM compiles: it waits for the end, because inside it would be lost.

LLVM calls back into Python, and an exception cannot cross its C++ frames: ctypes prints it and goes
on. So a KeyboardInterrupt that Python raised there stopped nothing, or left a kernel without code.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType


@contextlib.contextmanager
def interrupt_held() -> Iterator[None]:
    """Call SIGINT's handler, if one came meanwhile, when the block is left, also by an error.

    Thread  any; handlers run on the main one, so that on others there is nothing to hold
    Note    several count as one, as they do to Python
    """
    handler = signal.getsignal(signal.SIGINT)
    # SIG_DFL and SIG_IGN, which need no Python, cannot be called, nor can a handler from C (None).
    if not callable(handler) or threading.current_thread() is not threading.main_thread():
        yield
        return
    frames: list[FrameType | None] = []
    signal.signal(signal.SIGINT, lambda _, frame: frames.append(frame))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if frames:
            # Called, not raised anew as a signal, which would wake an event loop twice.
            handler(signal.SIGINT, frames[0])
