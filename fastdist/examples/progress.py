"""The progress of a training: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from typing import TextIO

# With a bar of this length, the longest usual line fits a terminal of 80 columns.
_BAR_COLUMNS, _LEAST_BAR_COLUMNS = 16, 4
_REDRAW_S = 0.05
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_EMPTY = "░"


class Progress:
    """Shows epoch, loss, accuracy and examples per second.

    On a terminal, one line is redrawn at most 20 times a second, and each epoch leaves one line.
    A worker of `fastdist run` writes to a pipe; FASTDIST_TERMINAL_WIDTH has the width of the
    launcher's terminal. The launcher redraws lines that end in a carriage return.
    """

    def __init__(self, epochs: int, examples: int, out: TextIO | None = None) -> None:
        self._epochs = epochs
        self._examples = examples
        self._out = sys.stdout if out is None else out
        self._line = RedrawnLine(self._out)
        self._accuracy: float | None = None
        self._epoch_start = time.perf_counter()

    def start_epoch(self) -> None:
        """Start to count the examples and the time of an epoch."""
        self._epoch_start = time.perf_counter()

    def step(self, epoch: int, examples: int, loss: float) -> None:
        """Show the epoch (from 1), the progress after `examples` examples of it, and the loss."""
        if not self._line.is_due():
            return
        parts = [f"epoch {epoch}/{self._epochs}", f"loss {loss:.4f}"]
        if self._accuracy is not None:
            parts.append(f"accuracy {self._accuracy:.1%}")
        parts.append(f"{self._speed(examples, time.perf_counter()):,.0f} examples/s")
        self._line.draw(parts, examples / self._examples)

    def end_epoch(self, epoch: int, loss: float, accuracy: float) -> None:
        """Print one line with the result of the epoch."""
        self._accuracy = accuracy
        speed = self._speed(self._examples, time.perf_counter())
        self._out.write(
            f"{self._line.clear()}epoch {epoch:>2}/{self._epochs}  loss {loss:.4f}  "
            f"test accuracy {accuracy:.1%}  {speed:,.0f} examples/s\n"
        )
        self._out.flush()

    def _speed(self, examples: int, now: float) -> float:
        return examples / max(now - self._epoch_start, 1e-9)


class RedrawnLine:
    """One line with a bar, redrawn at most 20 times a second if there is a terminal."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._width = _terminal_width(out)
        self._can_draw = _can_write(out, _EIGHTHS + _EMPTY)
        self._last_drawn = -1.0

    @property
    def is_shown(self) -> bool:
        """Return whether there is a terminal to draw on."""
        return self._width is not None

    def is_due(self) -> bool:
        """Return whether enough time has passed to draw the line again."""
        return self.is_shown and time.perf_counter() - self._last_drawn >= _REDRAW_S

    def draw(self, parts: Sequence[str], done: float) -> None:
        """Show `parts`, and after the first part a bar that is filled to the fraction `done`."""
        if self._width is not None:
            self._last_drawn = time.perf_counter()
            self._out.write(self._fitted(list(parts), done, self._width - 1) + "\r")
            self._out.flush()

    def _fitted(self, parts: list[str], done: float, width: int) -> str:
        """Return `parts` and a bar in one line; drop parts from the end until the line fits."""
        while len(parts) > 1 and len("  ".join(parts)) + 2 + _LEAST_BAR_COLUMNS > width:
            parts.pop()
        room = min(_BAR_COLUMNS, width - len("  ".join(parts)) - 2)
        draw = bar if self._can_draw else plain_bar
        return "  ".join([parts[0], draw(done, room), *parts[1:]])[:width]

    def clear(self) -> str:
        """Return the control sequence that removes the line."""
        if self._width is None:
            return ""
        # From a worker, the launcher gets an empty line that ends in "\r", and shows it instead of
        # the bar. A terminal needs a control sequence.
        return "\r\x1b[K" if self._out.isatty() else "\r"


def bar(done: float, columns: int) -> str:
    """Return a bar of `columns` columns, filled to the fraction `done`, in eighths of a column."""
    filled = round(min(max(done, 0.0), 1.0) * columns * 8)
    whole, eighths = divmod(filled, 8)
    part = _EIGHTHS[eighths] if eighths else ""
    return ("█" * whole + part).ljust(columns, _EMPTY)


def plain_bar(done: float, columns: int) -> str:
    """Return a bar for a terminal without block characters."""
    inner = columns - 2
    return f"[{('#' * round(min(max(done, 0.0), 1.0) * inner)).ljust(inner, '.')}]"


def _can_write(out: TextIO, text: str) -> bool:
    try:
        text.encode(out.encoding or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _terminal_width(out: TextIO) -> int | None:
    told = os.environ.get("FASTDIST_TERMINAL_WIDTH", "")
    if told.isdigit():
        return max(20, int(told))
    is_able = out.isatty() and os.environ.get("TERM") != "dumb"
    if not is_able:
        return None
    import shutil  # imported here: it takes 0.2 MB, and workers have no terminal

    return shutil.get_terminal_size().columns
