"""Whether this process ran while one of its threads did not: what tells a stop from a busy lock."""

# A thread that waits for the interpreter lock wakes at each switch interval (5 ms) to ask for it,
# and the kernel counts that. While the process is stopped (SIGSTOP, a debugger, a frozen container)
# nothing wakes. Measured with 3 s of each on a machine with three runnable threads a core: 477
# wakes with the lock held by a computation, 5 while stopped.

from __future__ import annotations

import sys
import time as real_time  # also where a simulation replaces the clocks of its modules
from typing import Final, NamedTuple

try:
    import resource
except ImportError:  # no Unix
    resource = None  # type: ignore[assignment]

_OF_THREAD: Final = getattr(resource, "RUSAGE_THREAD", None)
_BOOTTIME: Final = getattr(real_time, "CLOCK_BOOTTIME", None)

# A thread that goes on after a stop waits for the lock a few times, too: more than that, and more
# than a small part of what an unloaded machine would count, is a process that ran.
_LEAST_WAKES: Final = 20
_SHARE_OF_WAKES: Final = 0.1
_WAKES_OF_A_TURN: Final = 2
# Without a count by thread: the share of the time for which the process used a processor.
_SHARE_OF_TIME: Final = 0.5


class Meter(NamedTuple):
    """Counters of the present thread and its process at one moment.

    Thread  compared with another one of the same thread
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
        """Return whether the process ran in a time of late_s in which this thread should have.

        Before that time the thread had num_turns, each with a wake or two.
        """
        if self.num_wakes < 0:
            return self.processor_s - before.processor_s >= _SHARE_OF_TIME * late_s
        usual = late_s / sys.getswitchinterval()
        num_wakes = self.num_wakes - before.num_wakes - _WAKES_OF_A_TURN * num_turns
        return num_wakes >= max(_LEAST_WAKES, _SHARE_OF_WAKES * usual)

    def suspended_since(self, before: Meter) -> float:
        """Return for how long the machine was suspended, which time.monotonic() leaves out."""
        return self.suspended_s - before.suspended_s


def _suspended_s() -> float:
    if _BOOTTIME is None:
        return 0.0
    return real_time.clock_gettime(_BOOTTIME) - real_time.monotonic()
