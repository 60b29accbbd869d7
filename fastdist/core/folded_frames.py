"""Tracebacks without the frames of fastdist between a user's call and the error.

When an op rejects an argument, the traceback has a dozen frames of fastdist below the user's line.
Public functions remove these frames, as JAX does. To keep them, set `FASTDIST_TRACEBACKS=full` or
call `fastdist.utils.fold_tracebacks(False)`.
"""

from __future__ import annotations

import inspect
import os
import sys
import traceback
from collections.abc import Callable
from functools import wraps
from types import FrameType, TracebackType
from typing import Any, TypeVar

from .caller_warning import is_ours
from .generated_code import GENERATED

F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=type)

SWITCH = "FASTDIST_TRACEBACKS"
# The file names of fastdist's code begin with one of these. The file name of a generated public
# function is, for instance, `<fastdist add>`.
OUR_FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")
OUR_FILES = (OUR_FOLDER, GENERATED)
# The programs of the demo. Their frames are shown, like those of a user's program.
_EXAMPLES = os.path.join(OUR_FOLDER, "examples", "")


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
    """Remove fastdist's frames from the tracebacks of an error and its causes, if the calling
    function was called by a user's code. Do nothing if it was called by fastdist's code.

    Note    a bare `raise` must follow the call of `fold`, so that the frame of the calling function
            is left out as well
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


def private_cause(error: Exception) -> Exception | None:
    """Return None, as the cause of an error that explains `error`, or `error` if all frames are
    shown.

    It is for errors that fastdist's code, NumPy or Python raise inside a public function, such as
    an AttributeError: users would read them first.
    """
    return None if _State.folds else error


def was_folded(error: BaseException) -> bool:
    """Return whether `fold` has processed an error. If so, an explanation has been added to
    it as well.
    """
    return hasattr(error, "_fastdist_folded")


def traceback_text(error: BaseException) -> str:
    """Return an error's traceback as text for another worker, without fastdist's frames.

    If an error has only fastdist's frames and no cause, return one line that says how to see them;
    the other worker already has the error's message.
    """
    shown = _without_ours(error)
    is_alone = shown.__cause__ is None and shown.__context__ is None
    if error.__traceback__ and not shown.stack and is_alone and not shown.exceptions:
        return f"(raised inside fastdist; {SWITCH}=full on that worker shows where)"
    return "".join(shown.format()).rstrip("\n")


def error_text(error: BaseException) -> str:
    """Return what Python prints for an error, without fastdist's frames and the last line break."""
    return "".join(_without_ours(error).format()).rstrip("\n")


def stack_text() -> str:
    """Return the stack above the calling function as text, without fastdist's frames."""
    stack = traceback.extract_stack(sys._getframe(2))
    shown = [frame for frame in stack if not _State.folds or not _is_ours(frame.filename)]
    return "".join(traceback.format_list(shown))


def _without_ours(error: BaseException) -> traceback.TracebackException:
    shown = traceback.TracebackException.from_exception(error)
    if _State.folds:
        _leave_out_ours(shown)
    return shown


def _leave_out_ours(shown: traceback.TracebackException) -> None:
    """Remove fastdist's frames from an error, its causes, and the errors of an exception group."""
    left = [shown]
    while left:
        one = left.pop()
        one.stack[:] = [frame for frame in one.stack if not _is_ours(frame.filename)]
        linked = (one.__cause__, one.__context__, *(one.exceptions or ()))
        left += [other for other in linked if other is not None]


def _is_ours(file: str) -> bool:
    return file.startswith(OUR_FILES) and not file.startswith(_EXAMPLES)


def folds(function: F) -> F:
    """Return a wrapper of `function` that removes fastdist's frames from tracebacks of errors."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            fold(error)
            raise

    return call  # type: ignore[return-value]


def fold_methods(cls: C) -> C:
    """Let the constructor and the public methods of a class remove fastdist's frames from
    tracebacks of their errors. Do nothing if the class is not fastdist's own. Return the class.
    """
    fold_constructor(cls)
    for name, one in list(vars(cls).items()):
        if inspect.isfunction(one) and name[0] != "_" and _is_own(cls):
            setattr(cls, name, folds(one))
    return cls


def fold_public(module: str) -> None:
    """Let the public functions that a module defines, and the constructors of its public classes,
    remove fastdist's frames from tracebacks of their errors. A module calls this at its end, with
    `__name__`.
    """
    names = vars(sys.modules[module])
    made: dict[Any, Any] = {}  # a function may have several names
    for name, one in list(names.items()):
        if name.startswith("_") or getattr(one, "__module__", None) != module:
            continue
        if inspect.isclass(one):
            fold_constructor(one)
        elif inspect.isfunction(one):
            if one not in made:
                made[one] = folds(one)
            names[name] = made[one]


def fold_constructor(cls: Any) -> None:
    """Let the constructor of a class remove fastdist's frames from tracebacks of its errors. Do
    nothing if the class inherits its constructor, or is not fastdist's own.
    """
    given = cls.__dict__.get("__init__")
    if given is None or not _is_own(cls):
        return
    cls.__init__ = folds(given)
    # inspect.getfullargspec ignores `__wrapped__`.
    cls.__init__.__signature__ = inspect.signature(given)


def _is_own(cls: Any) -> bool:
    return str(cls.__dict__.get("__module__")).startswith("fastdist.")


def _is_called_by_user(frame: FrameType) -> bool:
    # The frame of a generated public function, between the user and the op, has no module name.
    caller = frame.f_back
    while caller is not None and caller.f_globals.get("__name__") is None:
        caller = caller.f_back
    return caller is None or not is_ours(caller)


def _users_frames(trace: TracebackType | None) -> TracebackType | None:
    kept, is_within = [], False
    while trace is not None:
        frame = trace.tb_frame
        # A context manager of fastdist adds a frame of contextlib.
        is_within = is_ours(frame) or (
            is_within and frame.f_globals.get("__name__") == "contextlib"
        )
        if not is_within:
            kept.append(trace)
        trace = trace.tb_next
    made = None
    for one in reversed(kept):
        made = TracebackType(made, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return made
