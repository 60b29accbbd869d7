"""Warnings for Futures that are dropped before their error is read."""

# Note [Errors that nobody reads]
# A failed call whose Future is dropped unread would fail silently. So a Future that completes with
# an error also holds an Unread. When the Unread is dropped, it logs the error, unless the error was
# read.
# A Future with a value has neither a finalizer nor an Unread. The thread that drops the
# Future writes the log line, whatever locks it holds, as in asyncio. This is as safe as any other
# log line of that thread. Nothing is logged while the interpreter exits, because all remaining
# Futures are dropped then, possibly hundreds.

from __future__ import annotations

import logging
import os
import sys
import traceback

from ..system.foreign_text import many_lines, one_line

# A separate logger, so that users can silence only these warnings.
_logger = logging.getLogger("fastdist.unread_errors")
_VARIABLE = "FASTDIST_UNREAD_ERRORS"
# The maximal number of kinds of work in one warning.
_MOST_NAMED = 8


def _escape_trace(record: logging.LogRecord) -> bool:
    """Format the traceback with escapes before a handler formats it, because its text may come from
    another worker.
    """
    if record.exc_info:
        trace = "".join(traceback.format_exception(record.exc_info[1]))
        record.exc_text = many_lines(trace.rstrip())
    return True


_logger.addFilter(_escape_trace)


class Unread:
    """An error that has not been read; `what` names the failed work.

    Thread  any
    """

    __slots__ = ("_entry", "_together", "error", "what")

    def __init__(self, error: BaseException, what: str) -> None:
        self.error: BaseException | None = error
        self.what = what
        # The group that logs this error together with others, and the entry of this error in the
        # group; None if the error is logged alone.
        self._together: UnreadTogether | None = None
        self._entry: _Entry | None = None

    def read(self) -> None:
        """Mark the error as read."""
        self.error = None
        if self._entry is not None:
            self._entry.error = None

    def describe(self, what: str) -> None:
        """Set the name of the failed work."""
        self.what = what
        if self._entry is not None:
            self._entry.what = what

    def join(self, together: UnreadTogether) -> None:
        """Add the error to a group that is logged together, unless it is read already."""
        if (error := self.error) is None:
            return
        entry = _Entry(error, self.what)
        self._together, self._entry = together, entry
        if self.error is None:  # a thread may have read it before the entry was set
            entry.error = None
        together.entries.append(entry)

    def __del__(self) -> None:
        error, self.error = self.error, None
        if error is not None and self._together is None:
            log_unread(error, self.what)


class _Entry:
    """One error of a group; `error` is None after it was read."""

    __slots__ = ("error", "what")

    def __init__(self, error: BaseException, what: str) -> None:
        self.error: BaseException | None = error
        self.what = what


class UnreadTogether:
    """The errors of the Futures that one call of collect_all has joined. One warning lists all
    errors that were not read.

    The warning is logged when the last of these Futures is dropped, because each Unread
    references this object.

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
    """Log an error that can no longer be read, as a warning with its traceback.

    Never raises, because finalizers call it.
    """
    if sys.is_finalizing() or os.environ.get(_VARIABLE) == "0":
        return
    try:
        told = (type(error), error, error.__traceback__)
        text = "%s failed, and nobody has read its error (%s=0 silences this)"
        _logger.warning(text, one_line(what), _VARIABLE, exc_info=told)
    except Exception:  # a user's log handler raised; a finalizer has no caller to raise to
        sys.stderr.write(f"{what} failed, and its error could not be logged\n")
