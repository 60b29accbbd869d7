"""Holds back a worker's traceback until the worker ends or continues, and finds its error line."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from fastdist.core.folded_frames import OUR_FOLDER

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
# An error that says which other worker was lost. The rank of that worker follows "(rank " or
# "worker " in the message. The message of a CollectiveLostError begins with "rank " and the rank.
_LOST = re.compile(
    rb"(?:[^\s:]+\.)?(?:(?:Worker|Owner)LostError: .*?(?:\(rank |worker )"
    rb"|CollectiveLostError: rank )(\d+)"
)
_PLACE = re.compile(rb'  File "([^<"][^"]*)", line (\d+)')
_THREAD = b"Thread 0x"
_PACKAGE = os.fsencode(OUR_FOLDER)
_STANDARD = os.fsencode(os.path.dirname(os.__file__) + os.sep)
_INSTALLED = os.fsencode(os.path.join("", "site-packages", ""))
# The beginning of a text that `refer_to` returns.
_REFERENCE = re.compile(rb"the last (?:traceback|line) that it wrote is (?:above|in .*?): ")
_LINE_ABOVE = b"the last line that it wrote is above"
_HELD_LIMIT_BYTES = 256 << 10


class FailureText:
    """Holds back a worker's traceback until it is known whether the error ended the worker.

    The first failure's traceback is shown once, at the end of the run. While a worker is alive, its
    stderr is held back from the first line of a traceback on. If the worker continues (it caught
    the error, or only a thread ended), the launcher shows these lines after a moment, by `release`.
    """

    def __init__(self) -> None:
        self._held: list[bytes] = []
        self._held_bytes = 0
        # The last line that is not blank.
        self.last_line = b""
        # The part of the last traceback that was shown, until the traceback's error line arrives.
        self._cut: list[bytes] = []
        # The time of the first held line; None if no line is held.
        self.since: float | None = None
        # The time at which the last held traceback began; for a chain of causes, the first of them.
        self.began: float | None = None
        # The error of the last traceback that was shown.
        self.shown = b""

    def feed(self, text: bytes, now: float, *, is_redrawn: bool = False) -> list[bytes]:
        """Return the lines to show now: this line, no line, or all held lines and this line.

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
        elif text.startswith(_HEADLINES) and not self.last_line.startswith((*_CHAINS, *_ASIDES)):
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
            self.last_line = text
        if self.since is None and self._cut and len(self._cut) < _HELD_LIMIT_BYTES >> 6:
            self._cut = [*self._cut, text]
            self.shown = what_was_raised(self._cut)
            if self.shown:
                self._cut = []


def what_was_raised(text: Sequence[bytes]) -> bytes:
    """Return the error line of a traceback, or b"" if the text was cut off before this line.

    Of several tracebacks, the last one counts. Tracebacks of errors that do not end the process
    count only if there is no other. For a text without a traceback, return its last line, or the
    line that `refer_to` was given.
    """
    raised = _all_raised(text)
    if raised or any(line.startswith(_STARTS) for line in text):
        return raised[-1] if raised else b""
    last = next((line for line in reversed(text) if line.strip()), b"")
    return _REFERENCE.sub(b"", last, count=1)


def refer_to(what: str, line: bytes, log_file: str) -> bytes:
    """Return the report's line about a traceback or line that was shown or written before."""
    where = f"in {log_file}" if log_file else "above"
    return os.fsencode(f"the last {what} that it wrote is {where}: ") + line


def without_shown_line(text: bytes) -> bytes:
    """Return a line of a report; a reference to a line that the screen shows does not repeat it."""
    return _LINE_ABOVE if text.startswith(_LINE_ABOVE + b": ") else text


def lost_ranks(text: Sequence[bytes]) -> set[int]:
    """Return the ranks that a traceback reports as lost, by its error or the error's cause."""
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


def without_own_threads(text: Sequence[bytes]) -> tuple[list[bytes], int]:
    """Return a fatal error's text without fastdist's idle threads, and the number of these threads.

    A thread that runs a user's function is kept: it has a frame of the user's files.
    """
    if not any(line.startswith(_FATAL) for line in text):
        return list(text), 0
    kept: list[bytes] = []
    block: list[bytes] = []
    num_left_out = 0
    for line in (*text, b""):
        block.append(line)
        if line:
            continue
        if _is_own_thread(block):
            num_left_out += 1
        else:
            kept += block
        block = []
    return kept[:-1], num_left_out


def _is_own_thread(block: Sequence[bytes]) -> bool:
    paths = [line.removeprefix(_FRAME) for line in block if line.startswith(_FRAME)]
    others = [path for path in paths if not path.startswith(_PACKAGE)]
    return (
        block[0].startswith(_THREAD)
        and len(others) < len(paths)
        and all(path.startswith(_STANDARD) and _INSTALLED not in path for path in others)
    )


def users_line(text: Sequence[bytes]) -> bytes:
    """Return the innermost line of the user's code in the last traceback.

    For example `train.py:12, dist.all_reduce(x)`; empty if all lines are in installed packages.
    """
    found = b""
    for line, after in zip(text, [*text[1:], b""]):
        if line.startswith(_HEADLINES):
            found = b""
        match = _PLACE.match(line)
        if match and not match[1].startswith((_PACKAGE, _STANDARD)) and _INSTALLED not in match[1]:
            code = after.strip() if after.startswith(b"    ") else b""
            found = os.path.basename(match[1]) + b":" + match[2] + (b", " + code if code else b"")
    return found
