"""Detects that a process ends without rpc.shutdown(), and the reason, for the other workers."""

# Note [Why a process ends]
# Python keeps the exception that ended the main thread. It keeps neither the SystemExit of
# sys.exit() nor the exception that was handled during that call. So from the first init_rpc on,
# sys.exit is replaced by a function that records both. `raise SystemExit(n)` cannot be recorded.
#
# Children of multiprocessing end by os._exit, which calls neither atexit nor sys.excepthook. But
# multiprocessing's finalizers are called, while the exception that ends the child is handled.

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

# Larger numbers run first: this finalizer must precede pools and queues that calls use.
_PRIORITY: Final = 1000

_sys_exit: Callable[[Any], NoReturn] = sys.exit
# The process id for which the finalizers were registered: a forked child needs its own.
_watched_pid = -1
# Text for the latest sys.exit() of the main thread; empty if it reported success.
_exit_call = ""


def watch_end(leave: Callable[[], None]) -> None:
    """Call leave() once before this process ends, if it ends in a way that runs Python code."""
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
    """Return the reason why this process ends, as far as known, as text for other workers."""
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
    # Without notes: if the error came from another worker, they hold that worker's traceback.
    shown = traceback.TracebackException(type(error), error, None)
    shown.__notes__ = None
    return "".join(shown.format_exception_only()).strip()


def _describe_exit(status: object, handled: BaseException | None) -> str:
    """Return text for a call of sys.exit; empty if it reports success."""
    if status is None or (isinstance(status, int) and status == 0):
        return ""
    after = "" if handled is None else f" while it handled {_describe(handled)}"
    return f"sys.exit({status!r:.100}){after}"


def _note_exits() -> None:
    global _sys_exit
    _sys_exit, sys.exit = sys.exit, _exit_and_note


def _exit_and_note(status: object = None, /) -> NoReturn:
    """Replace sys.exit: record the reason, and exit."""
    global _exit_call
    if threading.current_thread() is threading.main_thread():
        _exit_call = _describe_exit(status, sys.exception())
    _sys_exit(status)
