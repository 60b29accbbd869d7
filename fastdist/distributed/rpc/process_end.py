"""Detects that a process ends without rpc.shutdown(), and the reason, to notify other workers."""

# Note [Why a process ends]
# Python stores the exception that ended the main thread. It stores neither the SystemExit of
# sys.exit() nor the exception that was being handled when sys.exit() was called. So from the first
# init_rpc on, sys.exit is replaced by a function that records both. `raise SystemExit(n)` cannot be
# recorded.
#
# Children of multiprocessing end by os._exit, which runs neither atexit's functions nor
# sys.excepthook. But multiprocessing runs its own finalizers: before Python 3.13, while the
# exception that ends the child is still being handled; later, after it. Then only sys.exit() is
# known.

from __future__ import annotations

import atexit
import os
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any, Final, NoReturn

from fastdist.system.foreign_text import one_line

from .workers.end_reasons import CAUSE, ENDED, MOST_LETTERS

# Finalizers with larger numbers run first: this one must run before the finalizers of pools and
# queues that calls use.
_PRIORITY: Final = 1000

_sys_exit: Callable[[Any], NoReturn] = sys.exit
# The id of the process that registered the finalizers: a forked child must register them again.
_watched_pid = -1
# Text about the latest sys.exit() of the main thread; empty if the status was success.
_exit_call = ""


def watch_end(leave: Callable[[], None]) -> None:
    """Register leave() to be called once before this process ends, if Python code then runs."""
    global _watched_pid, _exit_call
    _exit_call = ""  # an earlier exit did not end the process
    if _watched_pid == os.getpid():
        return
    if sys.exit is not _exit_and_note:
        _note_exits()
    is_forked, _watched_pid = _watched_pid != -1, os.getpid()
    if not is_forked:
        atexit.register(leave)
    if "multiprocessing" not in sys.modules:
        return
    from multiprocessing import parent_process, util

    if parent_process() is not None:
        util.Finalize(None, leave, exitpriority=_PRIORITY)


def why_it_ends() -> str:
    """Return text for other workers: that this process ends, and the reason if it is known."""
    error = sys.exception()
    if isinstance(error, SystemExit):
        exit_call = _describe_exit(error.code, error.__context__)
        return _because(exit_call) if exit_call else ENDED
    if error is None:
        error = getattr(sys, "last_exc", getattr(sys, "last_value", None))
        if hasattr(sys, "ps1"):  # an error in an interactive session does not end the process
            error = None
    if error is not None:
        return _because(_describe(error))
    return _because(_exit_call) if _exit_call else ENDED


def _because(cause: str) -> str:
    return one_line(f"{CAUSE}{cause}", MOST_LETTERS)


def _describe(error: BaseException) -> str:
    # Leave out the error's notes: if it came from another worker, they have a long traceback.
    shown = traceback.TracebackException(type(error), error, None)
    shown.__notes__ = None
    return "".join(shown.format_exception_only()).strip()


def _describe_exit(status: object, handled: BaseException | None) -> str:
    """Return text about a call of sys.exit; empty if its status is success."""
    if status is None or (isinstance(status, int) and status == 0):
        return ""
    after = "" if handled is None else f" while it handled {_describe(handled)}"
    return f"sys.exit({status!r:.100}){after}"


def _note_exits() -> None:
    global _sys_exit
    _sys_exit, sys.exit = sys.exit, _exit_and_note


def _exit_and_note(status: object = None, /) -> NoReturn:
    """Record the reason, and exit. This function replaces sys.exit."""
    global _exit_call
    if threading.current_thread() is threading.main_thread():
        _exit_call = _describe_exit(status, sys.exception())
    _sys_exit(status)
