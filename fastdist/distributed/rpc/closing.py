"""The steps that close an agent: all of them run, even if exceptions interrupt some of them."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable


class Closing:
    """The remaining steps of a close; each step may run a second time after an interruption.

    An exception of a signal handler, such as Ctrl-C, ends `go_on`; the next call of `go_on` begins
    with the step that was interrupted. A step that has failed twice is skipped.

    Thread  the thread that created this object; `go_on` does nothing in another thread
    """

    def __init__(self, steps: Iterable[Callable[[], object]]) -> None:
        self._left = deque(steps)
        self._thread = threading.get_ident()
        self._num_tries = 0

    def go_on(self) -> None:
        """Run the remaining steps."""
        if threading.get_ident() != self._thread:
            return
        while self._left:
            self._num_tries += 1
            if self._num_tries <= 2:
                self._left[0]()
            self._left.popleft()
            self._num_tries = 0
