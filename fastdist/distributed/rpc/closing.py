"""The steps that close an agent: gone through once, also where exceptions come in between."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable


class Closing:
    """Steps that may each be run twice, of which some are left.

    The exception of a signal's handler, Ctrl-C for one, ends `go_on`; the next call begins with
    the step that it has interrupted. A step that has failed twice is left out.

    Thread  that which made it: `go_on` does nothing in another one
    """

    def __init__(self, steps: Iterable[Callable[[], object]]) -> None:
        self._left = deque(steps)
        self._thread = threading.get_ident()
        self._num_tries = 0

    def go_on(self) -> None:
        """Run the steps that are left."""
        if threading.get_ident() != self._thread:
            return
        while self._left:
            self._num_tries += 1
            if self._num_tries <= 2:
                self._left[0]()
            self._left.popleft()
            self._num_tries = 0
