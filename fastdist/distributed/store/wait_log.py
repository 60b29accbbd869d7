"""The line on stderr that names the missing workers while a group forms."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Final, Self, TextIO

# A group normally forms within this time, so nothing is logged until it has passed.
_FIRST_S: Final = 2.0
# This timeout means that the wait has no limit; the line then shows no limit.
WITHOUT_LIMIT_S: Final = 1e9
_CLEAR_LINE: Final = "\r\x1b[K"


class WaitLog:
    """Logs the missing workers after a wait of two seconds, and then repeatedly.

    On a terminal, one line is redrawn every two seconds and removed at the end. Elsewhere each
    report is a separate line, and the pauses double.
    """

    def __init__(self, who: str, timeout_s: float, out: TextIO | None = None) -> None:
        self._who = who
        self._timeout_s = timeout_s
        self._out = sys.stderr if out is None else out
        self._is_terminal = (
            self._out is not None and self._out.isatty() and os.environ.get("TERM") != "dumb"
        )
        self._start = time.monotonic()
        self._next_s = _FIRST_S
        self._has_logged = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Remove the line on a terminal; elsewhere log the end of a successful wait."""
        if not self._has_logged:
            return
        if self._is_terminal:
            self._write("")
        elif error is None:
            self._write(f"fastdist: {self._who} goes on after {self.waited_s:.0f} s")

    @property
    def waited_s(self) -> float:
        """The time since the start of the wait, in seconds."""
        return time.monotonic() - self._start

    def pauses(self, most_s: float = math.inf) -> Iterator[float]:
        """Yield the pauses between reports, up to the timeout.

        Note    with a limit of `most_s`, the caller uses log_now_and_again to report
        """
        pause = min(_FIRST_S, most_s)
        while True:
            left = max(0.0, self._timeout_s - self.waited_s)
            if left <= pause:
                yield left
                return
            yield pause
            if not self._is_terminal:
                pause = min(2.0 * pause, most_s)

    @property
    def is_over(self) -> bool:
        """Whether the timeout has passed."""
        return self.waited_s >= self._timeout_s

    def log_now_and_again(self, whom: str) -> None:
        """Report if a report is due; for code that waits in short steps."""
        if self.waited_s >= self._next_s:
            self._next_s = self._next_s + _FIRST_S if self._is_terminal else 2.0 * self._next_s
            self.tell(whom)

    def tell(self, whom: str) -> None:
        """Report that the wait continues, unless the timeout has passed."""
        if self.is_over:
            return
        self._has_logged = True
        limit_s = self._timeout_s
        shown = f" of {limit_s:.0f}" if limit_s >= 10.0 else f" of {limit_s:.3g}"
        # Compare with half of it: without a limit, the caller may have subtracted the time that has
        # passed from WITHOUT_LIMIT_S.
        limit = "" if limit_s >= WITHOUT_LIMIT_S / 2.0 else shown
        self._write(f"fastdist: {self._who} waits for {whom} ({self.waited_s:.0f}{limit} s)")

    def _write(self, text: str) -> None:
        if self._out is None:  # the process has no stderr
            return
        if self._is_terminal:
            import shutil  # imported on demand: the stderr of most workers is a pipe

            text = _CLEAR_LINE + text[: shutil.get_terminal_size().columns - 1]
        else:
            text += "\n"
        try:
            self._out.write(text)
            self._out.flush()
        except (OSError, ValueError):
            self._out = None  # stderr was closed, or its reader is gone


def speaks_for_node(
    rank: int, missing: Sequence[int], environment: Mapping[str, str] = os.environ
) -> bool:
    """Return whether `rank` is the lowest rank of its node that is not missing, and so logs.

    If no launcher has set LOCAL_RANK, each rank logs.
    """
    first = own_node(rank, environment)
    return first is None or all(other in missing for other in range(first, rank))


def own_node(rank: int, environment: Mapping[str, str] = os.environ) -> int | None:
    """Return the first rank on the node of `rank`; None if no launcher has set LOCAL_RANK."""
    local_rank = environment.get("LOCAL_RANK", "")
    return rank - int(local_rank) if local_rank.isdecimal() else None


def name_ranks(ranks: Sequence[int], world_size: int) -> str:
    """Return `rank 2 of 3`, or `ranks 1, 4-7 of 8`."""
    spans: list[list[int]] = []
    for rank in ranks:
        if spans and rank == spans[-1][1] + 1:
            spans[-1][1] = rank
        else:
            spans.append([rank, rank])
    names = [str(low) if low == high else f"{low}-{high}" for low, high in spans]
    shown = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
    return f"{'rank' if len(ranks) == 1 else 'ranks'} {shown} of {world_size}"
