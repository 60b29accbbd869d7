"""A worker's last words: held back until they are known to be, and what they say was raised."""

from __future__ import annotations

import re
from collections.abc import Sequence

_HEADLINES = (
    b"Traceback (most recent call last):",
    b"  + Exception Group Traceback (most recent call last):",
)
_FATAL = b"Fatal Python error:"
# A script that Python cannot read: there is no headline, for nothing has been called.
_FRAME = b'  File "'
_STARTS = (*_HEADLINES, _FATAL, _FRAME)
_CHAINS = (b"The above exception was the direct cause of ", b"During handling of the above ")
# Python's heading of a traceback for an error that does not end the process.
_ASIDES = (b"Exception in thread ", b"Exception ignored in", b"Error in atexit", b"Exception in at")
# A class, alone or with its message; all above it is indented.
_RAISED = re.compile(rb"(?:  \| )?([^\s:|+][^\s:]*(?::.*)?)", re.DOTALL)
_LOST = re.compile(rb"(?:[^\s:]+\.)?WorkerLostError: .*?(?:\(rank |worker )(\d+)")
_HELD_LIMIT_BYTES = 256 << 10


class FailureText:
    """Holds back a traceback of a worker until it is known whether it ended the worker.

    The first failure's traceback is shown once, at the end of the run. While a worker is alive, its
    stderr is held here from the first line of a traceback on. If the worker continues (it caught
    the error, or only a thread ended), `release` shows these lines after a moment.
    """

    def __init__(self) -> None:
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._before = b""
        # The shown part of the last traceback, as long as the error itself is not part of it.
        self._cut: list[bytes] = []
        # Since when something is held.
        self.since: float | None = None
        # When the traceback that is held last began: the first of a chain of causes.
        self.began: float | None = None
        # The error of the last traceback that was shown.
        self.shown = b""

    def feed(self, text: bytes, now: float, *, is_redrawn: bool = False) -> list[bytes]:
        """Return the lines to show now: this one, none, or all that were held and this one.

        A line that was redrawn may be a bar that did not end before the traceback began.
        """
        if is_redrawn and text.endswith(_HEADLINES[0]) and text != _HEADLINES[0]:
            bar = text.removesuffix(_HEADLINES[0])
            return [*self.feed(bar, now), *self.feed(_HEADLINES[0], now)]
        if self.since is None and not text.startswith(_STARTS):
            self._follow(text)
            return [text]
        if self.since is None:
            self.since = self.began = now
        elif text.startswith(_HEADLINES) and not self._before.startswith((*_CHAINS, *_ASIDES)):
            self.began = now
        self._follow(text)
        self._held.append(text)
        self._held_bytes += len(text)
        return self.release() if self._held_bytes > _HELD_LIMIT_BYTES else []

    def release(self) -> list[bytes]:
        """Return the held text, and hold nothing."""
        held, self._held = self._held, []
        self._held_bytes = 0
        self.since = None
        if held:
            self.shown = what_was_raised(held)
            self._cut = [] if self.shown else held
        return held

    def _follow(self, text: bytes) -> None:
        if text.strip():
            self._before = text
        if self.since is None and self._cut and len(self._cut) < _HELD_LIMIT_BYTES >> 6:
            self._cut = [*self._cut, text]
            self.shown = what_was_raised(self._cut)
            if self.shown:
                self._cut = []


def what_was_raised(text: Sequence[bytes]) -> bytes:
    """Return the line of a traceback that says what happened; nothing if it was cut off before.

    The last traceback counts, except those that Python itself adds while it ends. In a text without
    one, it is the last line.
    """
    raised = _all_raised(text)
    if raised or any(line.startswith(_STARTS) for line in text):
        return raised[-1] if raised else b""
    return next((line for line in reversed(text) if line.strip()), b"")


def lost_ranks(text: Sequence[bytes]) -> set[int]:
    """Return the ranks whose loss a traceback gives as what was raised, or as its cause."""
    found = (_LOST.match(line) for line in _all_raised(text))
    return {int(match[1]) for match in found if match}


def _all_raised(text: Sequence[bytes]) -> list[bytes]:
    main: list[bytes] = []
    asides: list[bytes] = []
    before = b""
    is_open = is_aside = False
    for line in text:
        if line.startswith(_HEADLINES):
            is_open = True
            is_aside = before.startswith(_ASIDES) or (is_aside and before.startswith(_CHAINS))
        elif line.startswith(_FATAL):
            main.append(line)
        elif line.startswith(_FRAME):
            is_open = is_open or not main
        elif is_open and (match := _RAISED.fullmatch(line)):
            is_open = False
            (asides if is_aside else main).append(match[1])
        if line.strip():
            before = line
    return main or asides
