"""Splits the bytes of a worker's pipe into lines, including lines that redraw themselves."""

from __future__ import annotations

import re
from typing import NamedTuple

# Longer lines are shown in pieces, so that a worker cannot fill the launcher's memory.
LINE_LIMIT_BYTES = 4 << 20
_END = re.compile(rb"\r*\n|\r+")


class Line(NamedTuple):
    """One line without its end; `redraws` is true if the line ended in a carriage return alone."""

    text: bytes
    redraws: bool


class LineSplitter:
    """Splits the bytes of one pipe into lines, independent of the chunks in which they arrive."""

    def __init__(self) -> None:
        self._partial = bytearray()
        # The last line if it ended in \r, until the next bytes arrive.
        self._redrawn: bytes | None = None
        self._may_continue = False

    def feed(self, chunk: bytes) -> list[Line]:
        """Return the lines that `chunk` completes."""
        lines = []
        if self._may_continue:
            # The \r that ended the last chunk, the \r here, and a following \n form one line end.
            chunk = chunk.lstrip(b"\r")
            if not chunk:
                return []
            self._may_continue = False
            if chunk.startswith(b"\n"):
                lines.append(Line(self._redrawn or b"", redraws=False))
                self._redrawn = None
                chunk = chunk[1:]
        scanned = len(self._partial)
        self._partial += chunk
        start = 0
        for end in _END.finditer(self._partial, scanned):
            text = bytes(self._partial[start : end.start()])
            start = end.end()
            redraws = not end.group().endswith(b"\n")
            self._redrawn = text if redraws else None
            lines.append(Line(text, redraws))
        self._may_continue = bool(lines) and lines[-1].redraws and start == len(self._partial)
        del self._partial[:start]
        while len(self._partial) > LINE_LIMIT_BYTES:
            lines.append(Line(self._cut(), redraws=False))
        return lines

    def _cut(self) -> bytes:
        at = LINE_LIMIT_BYTES
        while self._partial[at] & 0xC0 == 0x80:
            # Do not split inside a character.
            at -= 1
        text = bytes(self._partial[:at])
        del self._partial[:at]
        return text

    def finish(self) -> list[Line]:
        """Return the remaining text after the pipe was closed."""
        text = bytes(self._partial) or self._redrawn
        self._partial.clear()
        self._redrawn = None
        return [Line(text, redraws=False)] if text else []
