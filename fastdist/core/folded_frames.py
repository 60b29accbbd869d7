"""Tracebacks without the frames of fastdist between a user's call and the error.

When an op rejects an argument, the traceback has a dozen frames of fastdist below the user's line.
Public functions remove them, as in JAX. `FASTDIST_TRACEBACKS=full` and
`fastdist.utils.fold_tracebacks(False)` keep them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import wraps
from types import FrameType, TracebackType
from typing import Any, TypeVar

from .caller_warning import is_ours

F = TypeVar("F", bound=Callable[..., Any])

SWITCH = "FASTDIST_TRACEBACKS"


class _State:
    folds = os.environ.get(SWITCH, "folded") != "full"


def fold_tracebacks(enabled: bool = True) -> bool:
    """Choose whether tracebacks of errors leave out fastdist's own frames.

    Args    enabled: True, the default, leaves the frames out; the environment variable
            FASTDIST_TRACEBACKS=full makes False the initial setting
    Returns the previous setting
    Threads the setting applies to the whole process

    Example

        >>> import fastdist
        >>> before = fastdist.utils.fold_tracebacks(False)  # show all frames, to debug fastdist
        >>> fastdist.utils.fold_tracebacks(before)
        False
    """
    before, _State.folds = _State.folds, bool(enabled)
    return before


def fold(error: BaseException) -> None:
    """Remove our frames from the tracebacks of an error and its causes, in a function that a user
    called. Do nothing in a function that was called by another function of ours.

    Note    follow it by a bare `raise`, so that the frame of the caller is left out as well
    """
    if not _State.folds or not _is_called_by_user(sys._getframe(1)):
        return
    error._fastdist_folded = True  # type: ignore[attr-defined]
    seen, errors = set[int](), [error]
    while errors:
        one = errors.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        one.__traceback__ = _users_frames(one.__traceback__)
        errors += [other for other in (one.__cause__, one.__context__) if other is not None]


def was_folded(error: BaseException) -> bool:
    """Return whether a public function has folded an error; such an error has its
    explanation, too.
    """
    return hasattr(error, "_fastdist_folded")


def folds(function: F) -> F:
    """Return a wrapper of function that removes our frames from the tracebacks of its errors."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            fold(error)
            raise

    return call  # type: ignore[return-value]


def _is_called_by_user(frame: FrameType) -> bool:
    # A generated public function, whose frame has no module name, is between the user and the op.
    caller = frame.f_back
    while caller is not None and caller.f_globals.get("__name__") is None:
        caller = caller.f_back
    return caller is None or not is_ours(caller)


def _users_frames(trace: TracebackType | None) -> TracebackType | None:
    kept = []
    while trace is not None:
        if not is_ours(trace.tb_frame):
            kept.append(trace)
        trace = trace.tb_next
    made = None
    for one in reversed(kept):
        made = TracebackType(made, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return made
