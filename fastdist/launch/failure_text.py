"""Holds back a worker's traceback until it is known to be its last, and finds its error."""

from __future__ import annotations

import re
from collections.abc import Sequence

_HEADLINES = (
    b"Traceback (most recent call last):",
    b"  + Exception Group Traceback (most recent call last):",
)
_FATAL = b"Fatal Python error:"
# For a script with a syntax error, Python prints no headline, because nothing was called.
_FRAME = b'  File "'
_STARTS = (*_HEADLINES, _FATAL, _FRAME)
_CHAINS = (b"The above exception was the direct cause of ", b"During handling of the above ")
# Python's heading of a traceback for an error that does not end the process.
_ASIDES = (b"Exception in thread ", b"Exception ignored in", b"Error in atexit", b"Exception in at")
# The last line of a traceback: the exception's class, alone or with its message. All lines of the
# traceback above it are indented.
_RAISED = re.compile(rb"(?:  \| )?([^\s:|+][^\s:]*(?::.*)?)", re.DOTALL)
_LOST = re.compile(rb"(?:[^\s:]+\.)?WorkerLostError: .*?(?:\(rank |worker )(\d+)")
_HELD_LIMIT_BYTES = 256 << 10


class FailureText:
    """Holds back a worker's traceback until it is known whether it ended the worker.

    The first failure's traceback is shown once, at the end of the run. While a worker is alive, its
    stderr is held back from the first line of a traceback on. If the worker continues (it caught
    the error, or only a thread ended), `release` shows these lines after a moment.
    """

    def __init__(self) -> None:
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._before = b""
        # The shown part of the last traceback, while its error line has not come yet.
        self._cut: list[bytes] = []
        # The time of the first held line; None if no line is held.
        self.since: float | None = None
        # The start of the last held traceback; for a chain of causes, the start of the first.
        self.began: float | None = None
        # The error of the last traceback that was shown.
        self.shown = b""

    def feed(self, text: bytes, now: float, *, is_redrawn: bool = False) -> list[bytes]:
        """Return the lines to show now: this line, none, or all held lines and this one.

        A redrawn line may be a progress bar that had not ended when the traceback began.
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
        """Return the held lines, and stop holding."""
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
    """Return the error line of a traceback; nothing if the text was cut off before it.

    The last traceback counts, except those that Python itself prints while it exits. In a text
    without a traceback it is the last line.
    """
    raised = _all_raised(text)
    if raised or any(line.startswith(_STARTS) for line in text):
        return raised[-1] if raised else b""
    return next((line for line in reversed(text) if line.strip()), b"")


def lost_ranks(text: Sequence[bytes]) -> set[int]:
    """Return the ranks whose loss a traceback reports as its error, or as the cause of it."""
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
