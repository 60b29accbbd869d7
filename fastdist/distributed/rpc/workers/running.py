"""Detects whether the process was stopped, or only waited for the interpreter lock."""

# A thread that waits for the interpreter lock wakes once in each switch interval (5 ms) to request
# the lock, and the kernel counts these wakes. While the process is stopped (by SIGSTOP, a debugger
# or a frozen container), no thread wakes. Measured over 3 s on a machine with three runnable
# threads per core: 477 wakes while a computation held the lock, 5 while the process was stopped.

from __future__ import annotations

import sys
import time as real_time  # the real clocks, also if a simulation replaces the clocks of modules
from typing import Final, NamedTuple

try:
    import resource
except ImportError:  # not a Unix system
    resource = None  # type: ignore[assignment]

_OF_THREAD: Final = getattr(resource, "RUSAGE_THREAD", None)
_BOOTTIME: Final = getattr(real_time, "CLOCK_BOOTTIME", None)

# After a stop, a thread also waits for the lock a few times. So the process counts as having run
# only if the number of wakes is at least this number, and at least this share of the number that an
# unloaded machine would reach.
_LEAST_WAKES: Final = 20
_SHARE_OF_WAKES: Final = 0.1
_WAKES_OF_A_TURN: Final = 2
# Used if the system does not count the wakes of each thread: the process counts as having run if it
# used a core for at least this share of the time.
_SHARE_OF_TIME: Final = 0.5


class Meter(NamedTuple):
    """Counters of the present thread and its process at one moment.

    Thread  compare only with a Meter of the same thread
    Units   seconds
    """

    num_wakes: int
    processor_s: float
    suspended_s: float

    @classmethod
    def read(cls) -> Meter:
        """Return the present counters."""
        if resource is None or _OF_THREAD is None:
            return cls(-1, real_time.process_time(), _suspended_s())
        return cls(resource.getrusage(_OF_THREAD).ru_nvcsw, 0.0, _suspended_s())

    def ran_since(self, before: Meter, late_s: float, num_turns: int = 0) -> bool:
        """Return whether the process ran in the last `late_s` seconds, when this thread did not.

        Between `before` and that time the thread ran `num_turns` times. Each time the kernel
        counted one or two wakes.
        """
        if self.num_wakes < 0:
            return self.processor_s - before.processor_s >= _SHARE_OF_TIME * late_s
        usual = late_s / sys.getswitchinterval()
        num_wakes = self.num_wakes - before.num_wakes - _WAKES_OF_A_TURN * num_turns
        return num_wakes >= max(_LEAST_WAKES, _SHARE_OF_WAKES * usual)

    def suspended_since(self, before: Meter) -> float:
        """Return how long the machine was suspended since `before`; not part of monotonic time."""
        return self.suspended_s - before.suspended_s


def _suspended_s() -> float:
    if _BOOTTIME is None:
        return 0.0
    return real_time.clock_gettime(_BOOTTIME) - real_time.monotonic()
