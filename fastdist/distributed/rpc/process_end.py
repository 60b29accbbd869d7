"""The end of a process that has not called rpc.shutdown(): found out, and why, for the others."""

# Note [Why a process ends]
# Python keeps the exception that ended the main thread, but neither the SystemExit of sys.exit(),
# nor what was handled when that was called. So sys.exit is replaced, from the first init_rpc on, by
# a function that notes both. `raise SystemExit(n)` cannot be noted.
#
# Children of multiprocessing leave by os._exit: neither atexit nor sys.excepthook is called there.
# But its finalizers are, while the exception that ends the child is handled.

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

# Finalizers of larger numbers run first: this one before pools and queues, which calls may use.
_PRIORITY: Final = 1000

_sys_exit: Callable[[Any], NoReturn] = sys.exit
# The process whose end is watched: a forked child has separate finalizers.
_watched_pid = -1
# The latest sys.exit() of the main thread in words; empty if that reported no failure.
_exit_call = ""


def watch_end(leave: Callable[[], None]) -> None:
    """Call leave() once before this process ends, by whichever of its ways runs Python code."""
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
    """Return why this process ends, as far as it is known, in words for the other workers."""
    error = sys.exception()
    if isinstance(error, SystemExit):
        exit_call = _describe_exit(error.code, error.__context__)
        return _because(exit_call) if exit_call else ENDED
    if error is None:
        error = getattr(sys, "last_exc", getattr(sys, "last_value", None))
        if hasattr(sys, "ps1"):  # an error of an interactive session ends nothing
            error = None
    if error is not None:
        return _because(_describe(error))
    return _because(_exit_call) if _exit_call else ENDED


def _because(cause: str) -> str:
    return one_line(f"{CAUSE}{cause}", MOST_LETTERS)


def _describe(error: BaseException) -> str:
    return "".join(traceback.format_exception_only(error)).strip()


def _describe_exit(status: object, handled: BaseException | None) -> str:
    """Return a call of sys.exit in words, empty if it reports no failure."""
    if status is None or (isinstance(status, int) and status == 0):
        return ""
    after = "" if handled is None else f" while it handled {_describe(handled)}"
    return f"sys.exit({status!r:.100}){after}"


def _note_exits() -> None:
    global _sys_exit
    _sys_exit, sys.exit = sys.exit, _exit_and_note


def _exit_and_note(status: object = None, /) -> NoReturn:
    """Exit as sys.exit does, whose place this has, and note why."""
    global _exit_call
    if threading.current_thread() is threading.main_thread():
        _exit_call = _describe_exit(status, sys.exception())
    _sys_exit(status)
