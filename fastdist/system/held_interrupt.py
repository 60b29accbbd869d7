"""Ctrl-C that waits for the end of a block, because inside it would be lost or leave a half.

LLVM calls back into Python, and an exception cannot cross its C++ frames: ctypes prints it and goes
on. So a KeyboardInterrupt that Python raised there stopped nothing, or left a kernel without code.
A process that is being started has no number yet that anybody could end it by.
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
    """Call SIGINT's handler, if one came meanwhile, when the block is left, also by an error.

    Thread  any; handlers run on the main one, so that on others there is nothing to hold
    Fork    a child that is forked in the block has SIGINT's handler, and holds nothing
    Note    several count as one, as they do to Python
    """
    handler = signal.getsignal(signal.SIGINT)
    # SIG_DFL and SIG_IGN, which need no Python, cannot be called, nor can a handler from C (None).
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
            # Called, not raised again as a signal, which would wake an event loop twice.
            handler(signal.SIGINT, frames[0])


def _let_go_in_child() -> None:
    if _held:
        signal.signal(signal.SIGINT, _held[0])


os.register_at_fork(after_in_child=_let_go_in_child)
