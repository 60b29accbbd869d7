"""Tracebacks without the frames of fastdist between a user's call and the error.

An error in an op's arguments passes through a dozen functions of ours before a user's line. Public
functions leave them out, as JAX does; `FASTDIST_TRACEBACKS=full` keeps them, and so does
`fastdist.utils.fold_tracebacks(False)`.
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
    """Leave fastdist's own frames out of the tracebacks of errors from now on, or keep them.

    Args    enabled: whether to leave them out, the default; the environment variable
            FASTDIST_TRACEBACKS=full turns it off at the start
    Returns the setting until now
    Threads the setting holds for the whole process

    Example

        >>> import fastdist
        >>> before = fastdist.utils.fold_tracebacks(False)  # show all frames, to debug fastdist
        >>> fastdist.utils.fold_tracebacks(before)
        False
    """
    before, _State.folds = _State.folds, bool(enabled)
    return before


def fold(error: BaseException) -> None:
    """Leave our frames out of the tracebacks of an error and its causes, in a function that a user
    called. Do nothing in a function that another function of ours called.

    Note    to be followed by a bare `raise`: the frame that folds is then left out as well
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
    """Return whether a public function has folded an error: it has been explained, too."""
    return hasattr(error, "_fastdist_folded")


def folds(function: F) -> F:
    """Return function with our frames left out of the tracebacks of its errors."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            fold(error)
            raise

    return call  # type: ignore[return-value]


def _is_called_by_user(frame: FrameType) -> bool:
    # The text of a public function, which has no module, is between a user and what it calls.
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
