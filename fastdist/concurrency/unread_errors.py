"""Errors that nobody read: a warning when the Future that holds one is dropped."""

# Note [Errors that nobody reads]
# A call that fails, and whose Future is dropped unread, would fail in silence. So a Future that is
# completed with an error also holds an Unread, which logs the error when it is dropped, unless the
# error was read before. Futures with values pay nothing: they have no finalizer, and no Unread. The
# thread that drops the Future logs, whatever locks it holds, as in asyncio: that is as safe as any
# other log line of that thread. While the interpreter ends nothing is logged: all Futures that are
# left are dropped then, perhaps hundreds at once.

from __future__ import annotations

import logging
import os
import sys
import traceback

from ..system.foreign_text import many_lines, one_line

# A separate logger, so that users can silence these warnings alone.
_logger = logging.getLogger("fastdist.unread_errors")
_VARIABLE = "FASTDIST_UNREAD_ERRORS"
# How many kinds of work one warning names.
_MOST_NAMED = 8


def _escape_trace(record: logging.LogRecord) -> bool:
    """Format the traceback before a handler does: another worker may have written its text."""
    if record.exc_info:
        trace = "".join(traceback.format_exception(record.exc_info[1]))
        record.exc_text = many_lines(trace.rstrip())
    return True


_logger.addFilter(_escape_trace)


class Unread:
    """An error that was not read yet; `what` says what has failed.

    Thread  any
    """

    __slots__ = ("_entry", "_together", "error", "what")

    def __init__(self, error: BaseException, what: str) -> None:
        self.error: BaseException | None = error
        self.what = what
        # The group that logs the error with others, and its entry there, if it is not logged alone.
        self._together: UnreadTogether | None = None
        self._entry: _Entry | None = None

    def read(self) -> None:
        """Take note that somebody knows of the error."""
        self.error = None
        if self._entry is not None:
            self._entry.error = None

    def describe(self, what: str) -> None:
        """Say what has failed."""
        self.what = what
        if self._entry is not None:
            self._entry.what = what

    def join(self, together: UnreadTogether) -> None:
        """Have the error logged with others, unless it is read."""
        if (error := self.error) is None:
            return
        entry = _Entry(error, self.what)
        self._together, self._entry = together, entry
        if self.error is None:  # a reader may have come before it could find the entry
            entry.error = None
        together.entries.append(entry)

    def __del__(self) -> None:
        error, self.error = self.error, None
        if error is not None and self._together is None:
            log_unread(error, self.what)


class _Entry:
    """One error of several, None once it was read."""

    __slots__ = ("error", "what")

    def __init__(self, error: BaseException, what: str) -> None:
        self.error: BaseException | None = error
        self.what = what


class UnreadTogether:
    """The errors of Futures that were collected: one warning for all that nobody has read.

    It comes when the last of these Futures is dropped: each Unread refers to this object.

    Thread  any
    """

    __slots__ = ("entries",)

    def __init__(self) -> None:
        self.entries: list[_Entry] = []

    def __del__(self) -> None:
        unread = [(one.error, one.what) for one in self.entries if one.error is not None]
        if len(unread) == 1:
            log_unread(*unread[0])
        elif unread:
            names = sorted({what for _, what in unread})
            more = ", ..." if len(names) > _MOST_NAMED else ""
            what = f"each of {len(unread)} Futures ({', '.join(names[:_MOST_NAMED])}{more})"
            errors = [error for error, _ in unread]
            log_unread(BaseExceptionGroup("errors that nobody has read", errors), what)


def log_unread(error: BaseException, what: str) -> None:
    """Log, as a warning with its traceback, an error that nobody will read any more.

    Never raises: it is called by finalizers.
    """
    if sys.is_finalizing() or os.environ.get(_VARIABLE) == "0":
        return
    try:
        told = (type(error), error, error.__traceback__)
        text = "%s failed, and nobody has read its error (%s=0 silences this)"
        _logger.warning(text, one_line(what), _VARIABLE, exc_info=told)
    except Exception:  # a handler of the user's, in a finalizer: there is nobody to raise it to
        sys.stderr.write(f"{what} failed, and its error could not be logged\n")
