"""The ends of waits in a group: its first failure, and deadlines; warnings before these."""

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

# How one member reports to others why it failed.
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
# Members that wait for members of other machines give these so much longer to report who is late.
REPORT_S: Final = 0.1

_logger = logging.getLogger(__name__)


def kind_of(error: BaseException) -> int:
    """Return the number by which others learn what kind of error one is."""
    for kind in (LOST, TIMED_OUT, MISMATCH):
        if isinstance(error, _ERRORS[kind]):
            return kind
    return FAILED


def error_of(kind: int, text: str) -> CollectiveError:
    """Return the error that another member has reported."""
    return _ERRORS.get(kind, CollectiveError)(text)


# A wait looks again after that at the latest: a failure that is reported in the memory of a machine
# wakes those that sleep on its counters alone.
LOOK_S: Final = 0.5
# For how long the last words of a member that has gone may be on their way.
REASON_S: Final = 0.1


class Alarm:
    """The first failure of a group, which ends it.

    Thread  any
    """

    def __init__(self) -> None:
        self.error: Exception | None = None
        # Guards error, and the order of what follows it.
        self._lock = threading.Lock()
        # Members that have left the group after their last call.
        self.left: set[int] = set()
        # Called with members that others have waited for as long as the notice interval.
        self.on_late: Callable[[Sequence[int]], None] = _ignore
        # Each wakes those that wait in one way, which then look again.
        self.wakers: list[Callable[[], None]] = []
        # Raises what members of the machine report in its memory, which wakes no waker.
        self.read_reports: Callable[[], None] = _read_none

    def set(self, error: Exception) -> bool:
        """End the group with error; False if it had ended before."""
        with self._lock:
            if self.error is not None:
                return False
            self.error = error
        self._wake()
        return True

    def member_left(self, member: int) -> None:
        """Fail those that wait for a member, now or later."""
        self.left.add(member)
        self._wake()

    def _wake(self) -> None:
        for wake in self.wakers:
            wake()

    def look(self) -> None:
        """Raise the failure of the group, reported in whatever way; before each sleep."""
        self.require_none()
        self.read_reports()

    def read_on(self, member: int) -> None:
        """Wait shortly for what a member that has gone said before: the failure that it left for.

        Raises  the failure of the group
        """
        bell, until = Doorbell(), time.monotonic() + REASON_S
        self.wakers.append(bell.ring)
        self.look()
        while member not in self.left and bell.wait(until):
            bell.clear()
            self.look()
        bell.close()  # a later ring does nothing
        self.look()

    def require_none(self) -> None:
        """Raise the error again, if there is one."""
        error = self.error
        if error is None:
            return
        if isinstance(error, CollectiveError):
            # A new one each time: a traceback belongs to one thread.
            raise type(error)(*error.args)
        raise error


def _read_none() -> None:
    pass


def _ignore(members: Sequence[int]) -> None:
    del members


class Waiting:
    """One call's patience: logs who is late at the notice interval, and raises at the deadline."""

    def __init__(self, call: Call, members: Members, alarm: Alarm, notice_s: float) -> None:
        self._call = call
        self._alarm, self._left = alarm, alarm.left
        self._members = members
        self._notice_s = notice_s
        self._since = time.monotonic()
        self._notice_at = self._since + notice_s

    def name(self, member: int) -> str:
        """Return how errors name a member."""
        return self._members.name(member)

    def look(
        self, missing: Sequence[int], grace_s: float = 0.0, *, awaits_left: bool = False
    ) -> float:
        """Return for how many seconds to wait on for members that are missing.

        With awaits_left, members that have left count as the others: a connection shows their end.

        Raises  CollectiveTimeoutError once the deadline, and grace_s more, have passed;
                CollectiveLostError for a member that has left, unless `awaits_left`
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
