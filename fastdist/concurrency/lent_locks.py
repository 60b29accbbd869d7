"""Lends the locks of interrupted code to other threads while a signal handler runs."""

# Note [Handlers and locks]
# A signal handler runs in the main thread between any two steps of that thread's Python code,
# possibly while the thread holds a lock. Other threads wait for that lock until the handler
# returns. If the handler waits for one of these threads, as a handler that shuts RPC down does,
# both wait forever. So the handler lends the locks of the interrupted code until the handler
# returns. Meanwhile the locks do not protect the state that the interrupted code changes. But that
# code has only a few assignments left to do, and the state is shut down.
#
# The locks are found through the stack frames: in variables of fastdist's code, and in attributes
# of the objects in these variables. Only RLocks are lent, because an RLock stores its owner.

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType, MemberDescriptorType
from typing import Any, Final

from ..core.moved_modules import own_name

_PACKAGE: Final = __name__.partition(".")[0] + "."
_RLOCK: Final = type(threading.RLock())


@contextmanager
def lend_held_locks() -> Iterator[None]:
    """Let other threads take the locks that outer frames of the main thread hold, in this block.

    In other threads this does nothing, because handlers run in the main thread only.
    """
    held: list[Any] = []
    if threading.current_thread() is threading.main_thread():
        held = _find_held(sys._getframe())
    states = [lock._release_save() for lock in held]
    try:
        yield
    finally:
        # Acquire the locks in the order in which they were taken at first: the list begins with the
        # locks of the innermost frame.
        for lock, state in reversed([*zip(held, states, strict=True)]):
            lock._acquire_restore(state)


def _find_held(frame: FrameType | None) -> list[Any]:
    found: dict[int, Any] = {}
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith(_PACKAGE):
            for value in [*frame.f_locals.values(), *frame.f_globals.values()]:
                for one in (value, *_attributes(value)):
                    lock = getattr(one, "_lock", None) if type(one) is threading.Condition else one
                    if type(lock) is _RLOCK and lock._is_owned():  # type: ignore[attr-defined]
                        found.setdefault(id(lock), lock)
        frame = frame.f_back
    return [*found.values()]


def _attributes(value: object) -> list[object]:
    kind = type(value)
    if not own_name(kind)[0].startswith(_PACKAGE):
        return []
    found = []
    for parent in kind.__mro__:
        # Read slot by slot, because an object whose __init__ was interrupted lacks some attributes.
        for slot in parent.__dict__.values():
            if isinstance(slot, MemberDescriptorType):
                with suppress(AttributeError):
                    found.append(slot.__get__(value))
    return [*found, *getattr(value, "__dict__", {}).values()] if kind.__dictoffset__ else found
