"""Writes lines of many workers to one terminal or file, without blocking the launcher."""

from __future__ import annotations

import os
import re
import unicodedata
from collections import deque
from selectors import EVENT_WRITE, BaseSelector

# The number of bytes that a pipe accepts without blocking if it polls as writable (PIPE_BUF on
# Linux).
_WRITE_BYTES = 4096
_FULL_BYTES = 1 << 20
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_CLEAR_LINE = b"\r\x1b[K"


class Outlet:
    """An output descriptor of the launcher; data is written when the descriptor accepts it."""

    def __init__(self, fd: int, selector: BaseSelector) -> None:
        self.fd = fd
        # The reason why writing is impossible: the reader is gone, or the disk is full.
        self.error: OSError | None = None
        self._selector = selector
        self._pending: deque[bytes] = deque()
        self._pending_bytes = 0

    @property
    def is_empty(self) -> bool:
        return not self._pending

    @property
    def is_full(self) -> bool:
        return self._pending_bytes > _FULL_BYTES

    def put(self, data: bytes) -> None:
        """Queue data; it is dropped if the reader of this descriptor is gone."""
        if self.error is not None or not data:
            return
        if not self._pending:
            self._selector.register(self.fd, EVENT_WRITE, self.write_some)
        self._pending.append(data)
        self._pending_bytes += len(data)

    def write_some(self) -> None:
        """Write what the descriptor accepts without blocking; called when it polls as writable."""
        if not self._pending:
            return
        data = self._pending.popleft()
        try:
            written = os.write(self.fd, data[:_WRITE_BYTES])
        except BlockingIOError:
            written = 0
        except OSError as error:
            self._pending.appendleft(data)
            self.lose(error)
            return
        self._pending_bytes -= written
        if written < len(data):
            self._pending.appendleft(data[written:])
        elif not self._pending:
            self._selector.unregister(self.fd)

    def lose(self, error: OSError) -> None:
        """Stop writing because of an error."""
        self.error = error
        if self._pending:
            self._pending.clear()
            self._pending_bytes = 0
            self._selector.unregister(self.fd)


class Screen:
    """stdout and stderr of the launcher, with a line at the bottom that redraws itself."""

    def __init__(self, selector: BaseSelector, out: int = 1, err: int = 2) -> None:
        self._out = Outlet(out, selector)
        # Two descriptors of one terminal or pipe share a queue; otherwise their lines could change
        # order.
        self._err = self._out if _is_same_file(out, err) else Outlet(err, selector)
        # A dumb terminal cannot move the cursor back, so lines are only appended, as in a file.
        self._is_terminal = os.isatty(out) and os.environ.get("TERM") != "dumb"
        self._redrawn = b""

    @property
    def width(self) -> int | None:
        """The terminal's width in columns; None if stdout cannot redraw a line."""
        if not self._is_terminal:
            return None
        try:
            return os.get_terminal_size(self._out.fd).columns or 80
        except OSError as error:  # the terminal was closed; a SIGHUP will follow
            self._out.lose(error)
            return None

    def print(self, line: bytes, *, to_stderr: bool = False) -> None:
        """Show one line, above the line that redraws itself."""
        outlet = self._err if to_stderr else self._out
        if outlet is self._out and self._redrawn:
            outlet.put(_CLEAR_LINE + line + b"\n" + self._redrawn)
        else:
            outlet.put(line + b"\n")

    def redraw(self, text: bytes) -> None:
        """Redraw the bottom line of a terminal with text; an empty text removes the line."""
        width = self.width
        if width is None or (not text and not self._redrawn):
            return
        # One column stays free, because some terminals wrap after a character in the last column.
        self._redrawn = fit(text, width - 1)
        self._out.put(_CLEAR_LINE + self._redrawn)

    @property
    def is_full(self) -> bool:
        """Return whether workers must wait, because the launcher's output is read too slowly."""
        return self._out.is_full or self._err.is_full

    @property
    def is_empty(self) -> bool:
        """Return whether all queued data has been written."""
        return self._out.is_empty and self._err.is_empty

    @property
    def error(self) -> OSError | None:
        """The reason why stdout cannot be written; None if it can."""
        return self._out.error


def _is_same_file(out: int, err: int) -> bool:
    try:
        one, other = os.fstat(out), os.fstat(err)
    except OSError:
        return False
    return (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)


def fit(text: bytes, width: int) -> bytes:
    """Cut text to `width` columns. Colour codes have width 0, wide characters 2; none is split."""
    shown: list[str] = []
    columns = 0
    line = text.decode("utf-8", "replace")
    at = 0
    while at < len(line):
        escape = _ESCAPE.match(line, at)
        if escape is not None:
            # Kept even beyond the width, because it may end a colour.
            shown.append(escape.group())
            at = escape.end()
            continue
        columns += _columns(line[at])
        if columns <= width:
            shown.append(line[at])
        at += 1
    return "".join(shown).encode()


def _columns(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
