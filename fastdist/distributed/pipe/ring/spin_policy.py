"""How long to look at a ring before sleeping: only where looking has paid lately."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Final

# Sleeping and being woken takes 10 to 40 us at each end, and what follows is slower for it, as
# caches are cold; whoever would look for longer than a short call and its answer take had better
# sleep. A call of 8x8 tensors in a context is answered in 100 to 190 us: forward and backward take
# 410 us, and 610 where looks end after 100 (2 cores of a shared AMD EPYC, Zen 5). With 400 us some
# jobs of several workers gained 5 %, and remote().to_here() lost a third.
LOOK_NS: Final = 200_000
_LOOKS_A_TIME: Final = 16
# After so many failures in a row it is tried once in 2 ** _MOST_DOUBLINGS times.
_MOST_DOUBLINGS: Final = 8


class SpinPolicy:
    """Decides how long to spin from whether spinning paid off before.

    Spinning holds the processor, and the interpreter lock: where all processors are busy, or the
    other end is slow, it delays the answer that it waits for.

    Thread  one at a time
    """

    __slots__ = ("_failures", "_left")

    def __init__(self) -> None:
        self._failures = 0 if _has_two_processors() else -1
        self._left = 0

    def look(self, is_there: Callable[[], bool]) -> bool:
        """Spin on is_there for a short time; return whether it became true."""
        if self._left or self._failures < 0:
            self._left -= 1
            return False
        until = time.monotonic_ns() + LOOK_NS
        while time.monotonic_ns() < until:
            for _ in range(_LOOKS_A_TIME):
                if is_there():
                    self._failures = 0
                    return True
            # The other end may be waiting for this very processor.
            os.sched_yield()
        self._failures = min(self._failures + 1, _MOST_DOUBLINGS)
        self._left = (1 << self._failures) - 1
        return False


def _has_two_processors() -> bool:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0)) > 1
    return (os.cpu_count() or 1) > 1
