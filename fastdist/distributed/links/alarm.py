"""The ends of waits in a group: its first failure, and deadlines. Also warnings of late members."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from fastdist.core.errors import (
    CollectiveError,
    CollectiveLostError,
    CollectiveMismatchError,
    CollectiveTimeoutError,
)
from fastdist.distributed.process_group.transport import Call
from fastdist.distributed.sockets import Doorbell
from fastdist.system.foreign_text import one_line

from .members import Members

# The numbers by which a member reports the kind of its failure to other members.
LOST: Final = 1
TIMED_OUT: Final = 2
MISMATCH: Final = 3
LEFT: Final = 4
FAILED: Final = 5

_ERRORS: Final[dict[int, type[CollectiveError]]] = {
    LOST: CollectiveLostError,
    TIMED_OUT: CollectiveTimeoutError,
    MISMATCH: CollectiveMismatchError,
    LEFT: CollectiveLostError,
    FAILED: CollectiveError,
}
# A wait for another machine may exceed the deadline by this time, so that the other machine's
# report about late members can arrive.
REPORT_S: Final = 0.1

_logger = logging.getLogger(__name__)


def kind_of(error: BaseException) -> int:
    """Return the number by which the kind of an error is reported."""
    for kind in (LOST, TIMED_OUT, MISMATCH):
        if isinstance(error, _ERRORS[kind]):
            return kind
    return FAILED


def error_of(kind: int, text: str) -> CollectiveError:
    """Return the error that another member reported."""
    return _ERRORS.get(kind, CollectiveError)(text)


# The longest interval between two checks during a wait. The checks are needed because members also
# report failures in the memory that they share on a machine. Such a report wakes only threads that
# sleep on counters in this memory.
LOOK_S: Final = 0.5
# The time in which the last message of a member that has ended may still arrive.
REASON_S: Final = 0.1


class Alarm:
    """The first failure of a group, which ends it.

    Thread  any
    """

    def __init__(self) -> None:
        self.error: Exception | None = None
        # Guards `error`, so that only one thread sets it and wakes the others.
        self._lock = threading.Lock()
        # Members that have left the group after their last call.
        self.left: set[int] = set()
        # This function is called with the members that others have waited for longer than the
        # notice interval.
        self.on_late: Callable[[Sequence[int]], None] = _ignore
        # Functions that are called after a failure. Each wakes the threads of one kind of wait,
        # which then check for failures.
        self.wakers: list[Callable[[], None]] = []
        # This function raises a failure that a member on this machine has reported in the memory
        # that the members share. After such a report, the functions in `wakers` are not called.
        self.read_reports: Callable[[], None] = _read_none

    def set(self, error: Exception) -> bool:
        """End the group with an error; return False if the group had ended before."""
        with self._lock:
            if self.error is not None:
                return False
            self.error = error
        self._wake()
        return True

    def member_left(self, member: int) -> None:
        """Let present and later waits for a member fail, because the member has left."""
        self.left.add(member)
        self._wake()

    def _wake(self) -> None:
        for wake in self.wakers:
            wake()

    def look(self) -> None:
        """Raise the failure of the group, from `error` or from this machine's memory. Every wait
        calls this before it sleeps.
        """
        self.require_none()
        self.read_reports()

    def read_on(self, member: int) -> None:
        """Wait briefly for messages that a member sent before its end, such as its failure.

        Raises  the failure of the group
        """
        bell, until = Doorbell(), time.monotonic() + REASON_S
        self.wakers.append(bell.ring)
        self.look()
        while member not in self.left and bell.wait(until):
            bell.clear()
            self.look()
        bell.close()  # `wakers` still has it, but ringing it has no effect now
        self.look()

    def require_none(self) -> None:
        """Raise the failure of the group, if there is one."""
        error = self.error
        if error is None:
            return
        if isinstance(error, CollectiveError):
            # A new object each time, because a traceback belongs to one thread.
            raise type(error)(*error.args)
        raise error


def _read_none() -> None:
    pass


def _ignore(members: Sequence[int]) -> None:
    del members


class Waiting:
    """One call's wait: logs late members at the notice interval, and raises at the deadline."""

    def __init__(self, call: Call, members: Members, alarm: Alarm, notice_s: float) -> None:
        self._call = call
        self._alarm, self._left = alarm, alarm.left
        self._members = members
        self._notice_s = notice_s
        self._since = time.monotonic()
        self._notice_at = self._since + notice_s

    def name(self, member: int) -> str:
        """Return the name of a member in errors."""
        return self._members.name(member)

    def look(
        self, missing: Sequence[int], grace_s: float = 0.0, *, awaits_left: bool = False
    ) -> float:
        """Return how many seconds to continue waiting for members that are missing.

        With `awaits_left`, the wait includes members that have left; their connections show when
        they end.

        Raises  CollectiveTimeoutError when the deadline and grace_s have passed;
                CollectiveLostError if all missing members have left, unless `awaits_left`
        """
        gone = self._left.intersection(missing) if self._left and not awaits_left else None
        if gone and len(gone) == len(missing):
            names = self._members.names(sorted(gone))
            raise CollectiveLostError(f"{names} left the group: {self._call.name} waits in vain")
        now, call = time.monotonic(), self._call
        deadline = call.deadline + grace_s
        if now >= deadline:
            raise CollectiveTimeoutError(
                f"{call.name} at {one_line(call.line)} (number {call.sequence} of the group): "
                f"Timed out waiting {(now - self._since) * 1e3:.0f}ms: "
                f"{self._members.names(missing)} had not come after {now - self._since:.3g} s"
            )
        if now >= self._notice_at:
            self._notice_at = now + self._notice_s
            _logger.warning(
                "%s at %s has waited %.3g s for %s",
                call.name,
                one_line(call.line),
                now - self._since,
                self._members.names(missing),
            )
            self._alarm.on_late(missing)
        return min(deadline, self._notice_at) - now
