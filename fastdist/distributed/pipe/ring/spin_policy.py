"""SpinPolicy: spins on a ring before sleeping, if spinning has been successful lately."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Final

# Sleeping and waking takes 10 to 40 us at each end, and cold caches slow down the work afterwards.
# But it is better to sleep than to spin for longer than a short call takes. A call of 8x8 tensors
# in a context is answered in 100 to 190 us. Forward and backward together take 410 us, but 610 us
# if spinning ends after 100 us (2 cores of a shared AMD EPYC, Zen 5). With a limit of 400 us, some
# jobs of several workers became 5 % faster, but remote().to_here() became a third slower.
LOOK_NS: Final = 200_000
_LOOKS_A_TIME: Final = 16
# After many failures in a row, only one of 2 ** _MOST_DOUBLINGS calls of `look` spins.
_MOST_DOUBLINGS: Final = 8


class SpinPolicy:
    """Decides from earlier successes whether to spin.

    Spinning occupies a processor and the interpreter lock. If all processors are busy, or the other
    end is slow, spinning delays the answer that it waits for.

    Thread  one at a time
    """

    __slots__ = ("_failures", "_left")

    def __init__(self) -> None:
        self._failures = 0 if _has_two_processors() else -1
        self._left = 0

    def look(self, is_there: Callable[[], bool]) -> bool:
        """Spin until is_there() is true, for at most LOOK_NS; return whether it became true."""
        if self._left or self._failures < 0:
            self._left -= 1
            return False
        until = time.monotonic_ns() + LOOK_NS
        while time.monotonic_ns() < until:
            for _ in range(_LOOKS_A_TIME):
                if is_there():
                    self._failures = 0
                    return True
            # The other end may be waiting for this processor.
            os.sched_yield()
        self._failures = min(self._failures + 1, _MOST_DOUBLINGS)
        self._left = (1 << self._failures) - 1
        return False


def _has_two_processors() -> bool:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0)) > 1
    return (os.cpu_count() or 1) > 1
