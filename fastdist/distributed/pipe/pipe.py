"""Pipe: a worker's lanes to one peer, and the calls that wait for its answers."""

from __future__ import annotations

import copy
import functools
import logging
import threading
from collections.abc import Callable, Iterable
from typing import Final, Generic, Protocol, TypeVar

from fastdist.distributed.sockets import Doorbell

from .frames import Buffer
from .lane import Lane
from .shared_lane import SharedLane

# The most lanes for blocking callers, in addition to the shared lane 0. A caller that finds no free
# lane uses lane 0, and waits for its Future. If such a caller waited for a free lane, nested calls
# A -> B -> A could deadlock.
MAX_OWN_LANES: Final = 8
# While `drain_idle_lanes` reads a lane, a caller that finds no free lane waits for that lane,
# usually for microseconds. The wait is longer if reading the lane replaces its connection. This is
# the longest wait.
_LOOK_S: Final = 0.05

_logger = logging.getLogger(__name__)


class PendingCall(Protocol):
    """A call that has no answer yet."""

    def fail(self, error: Exception) -> None:
        """End the call with an error, unless it has ended already."""


C = TypeVar("C", bound=PendingCall)


class OwnLane:
    """A lane that one blocking caller has borrowed."""

    __slots__ = ("greet", "greeting", "lane", "number", "serial")

    def __init__(self, lane: Lane, number: int, greet: Callable[[], list[Buffer]]) -> None:
        self.lane = lane
        self.number = number
        # Creates the message that must be the first one on every connection of the lane.
        self.greet = greet
        # The message to send before the first call; None after this message was sent.
        self.greeting: list[Buffer] | None = greet()
        # The serial number of the last query about a call.
        self.serial = 0

    def send_greeting(self, deadline: float | None) -> None:
        """Send the greeting, which precedes the first call; `greeting` is None afterwards.

        Raises  the errors of Lane.send; `greeting` is then kept
        """
        assert self.greeting is not None
        self.lane.send(self.greeting, deadline)
        self.greeting = None


class Pipe(Generic[C]):
    """The lanes to one peer, and the calls that wait for the peer's answers.

    `connect(bell, number)` creates the lane with this number, which ends when the bell rings.
    `greet(number)` returns the first message for that lane.

    Thread  any
    """

    def __init__(
        self,
        connect: Callable[[Doorbell, int], Lane],
        greet: Callable[[int], list[Buffer]],
        attend: Callable[[], None],
        max_own_lanes: int = MAX_OWN_LANES,
    ) -> None:
        self._connect = connect
        self._greet = greet
        self._attend = attend
        # Guards the fields below. A thread that holds this lock does not create, use or close
        # lanes, and does not call PendingCall.fail.
        self._lock = threading.RLock()
        self._look_ended = threading.Condition(self._lock)
        self._closed = Doorbell()
        # Raised as a copy: one error object that is raised repeatedly would keep the stack frames
        # of all callers that raised it, and the objects in these frames.
        self._error: Exception | None = None
        self._pending: dict[int, C] = {}
        # The ids of calls on lane 0 that have not ended, and the latest id.
        self._open: set[int] = set()
        self._latest_id = -1
        self._free: list[OwnLane] = []
        # Unused lane numbers. Numbers are used again, so that a peer stores state for no more lanes
        # than can exist at one time.
        self._free_numbers = list(range(max_own_lanes, 0, -1))
        self._lanes_out = 0
        # Whether drain_idle_lanes, and not a caller, has one of the borrowed lanes.
        self._is_looking = False
        self._shared: SharedLane | None = None
        self._shared_lock = threading.RLock()

    @property
    def error(self) -> Exception | None:
        """The permanent error of this pipe; None while it can be used."""
        return self._error

    def borrow_lane(self) -> OwnLane | None:
        """Return a lane for one caller, or None if all are borrowed.

        Raises  the pipe's error
        """
        with self._lock:
            if self._error is not None:
                raise copy.copy(self._error)
            if not self._free and self._is_looking:
                # Wait for the lane that is being drained: otherwise each drain could make a caller
                # open one more connection.
                self._look_ended.wait_for(lambda: self._free or not self._is_looking, _LOOK_S)
                if self._error is not None:
                    raise copy.copy(self._error)
            if self._free:
                own = self._free.pop()
                self._lanes_out += 1
                return own
            if not self._free_numbers:
                return None
            number = self._free_numbers.pop()
            self._lanes_out += 1
        try:
            return OwnLane(
                self._connect(self._closed, number), number, functools.partial(self._greet, number)
            )
        except BaseException:
            with self._lock:
                self._free_numbers.append(number)
                self._lanes_out -= 1
            raise

    def return_lane(self, own: OwnLane, *, broken: bool = False) -> None:
        """Return a borrowed lane; it is closed if `broken` is true or the pipe has an error."""
        if broken:
            # The lane is closed before its number is free, so that it sends nothing after a new
            # lane got the number.
            own.lane.close()
        with self._lock:
            self._lanes_out -= 1
            is_over = self._error is not None
            if broken:
                self._free_numbers.append(own.number)
            elif not is_over:
                self._free.append(own)
            close_bell = is_over and self._lanes_out == 0
        if is_over and not broken:
            own.lane.close()
        if close_bell:
            self._closed.close()

    def drain_idle_lanes(self) -> list[list[Buffer]]:
        """Return the messages that arrived on idle lanes.

        These are answers to calls whose callers stopped waiting, or second answers that follow a
        query about a call.

        A lane that cannot be read is closed; the next caller creates another one.

        Thread  one at a time
        Note    a peer may keep memory, and other state, for a message until the message is read
        """
        came: list[list[Buffer]] = []
        with self._lock:
            lanes = list(self._free)
        for own in lanes:
            if self._begin_look(own):
                is_broken = True
                try:
                    while (frames := own.lane.try_receive()) is not None:
                        came.append(frames)
                    is_broken = False
                except Exception:  # after an error of one lane, the others must still be read
                    _logger.warning("closing an idle lane, which failed", exc_info=True)
                finally:
                    self._end_look(own, is_broken=is_broken)
        return came

    def _begin_look(self, own: OwnLane) -> bool:
        """Remove a lane from the free ones; return False if a caller has borrowed it first."""
        with self._lock:
            if self._error is not None or own not in self._free:
                return False
            self._free.remove(own)
            self._lanes_out += 1
            self._is_looking = True
            return True

    def _end_look(self, own: OwnLane, *, is_broken: bool) -> None:
        self.return_lane(own, broken=is_broken)
        with self._lock:
            self._is_looking = False
            self._look_ended.notify_all()

    def shared(self) -> SharedLane:
        """Return lane 0, and create it on the first call.

        Raises  the pipe's error
        """
        shared = self._shared
        if shared is not None:
            return shared
        with self._shared_lock:
            if self._shared is None:
                with self._lock:
                    if self._error is not None:
                        raise copy.copy(self._error)
                    # Count the lane as borrowed, so that the bell stays open while the lane is
                    # created.
                    self._lanes_out += 1
                try:
                    shared = SharedLane(self._connect(self._closed, 0), self._attend)
                    shared.send(self._greet(0))
                    self._shared = shared
                finally:
                    with self._lock:
                        self._lanes_out -= 1
                        close_bell = self._error is not None and self._lanes_out == 0
                    if close_bell:
                        self._closed.close()
            return self._shared

    def greet_again(self) -> None:
        """Send the greeting on lane 0 after its connection was lost and replaced."""
        shared = self._shared
        if shared is not None:
            shared.resume(self._greet(0))

    def notify(self, frames: list[Buffer]) -> None:
        """Send a message that needs no answer on lane 0; do nothing if lane 0 is closed or was
        never created.
        """
        shared = self._shared
        if shared is not None:
            shared.send(frames)

    def open_call(self, new_id: Callable[[], int]) -> int:
        """Return the id of a new call on lane 0, which counts as open until `close_call`, or until
        the call is no longer pending.

        Note    ids increase in the order in which this method is called: `open_calls` needs that
        """
        with self._lock:
            message_id = self._latest_id = new_id()
            self._open.add(message_id)
            return message_id

    def close_call(self, message_id: int) -> None:
        """End a call that `add_pending` has not stored."""
        with self._lock:
            self._open.discard(message_id)

    def open_calls(self, at_most: int) -> tuple[int, list[int]]:
        """Return (floor, ids): all calls on lane 0 with lower ids than `floor` have ended, except
        `ids`, which has at most `at_most` entries.
        """
        with self._lock:
            floor, still_open = self._latest_id + 1, list(self._open)
        still_open.sort()
        if len(still_open) > at_most:
            floor = still_open[at_most]
            del still_open[at_most:]
        return floor, still_open

    def add_pending(self, message_id: int, call: C) -> None:
        """Store a call until its answer comes.

        Raises  the pipe's error
        """
        with self._lock:
            if self._error is not None:
                self._open.discard(message_id)
                raise copy.copy(self._error)
            self._pending[message_id] = call

    def take_pending(self, message_id: int) -> C | None:
        """Remove and return the call of an answer; None if the call ended before its answer."""
        with self._lock:
            call = self._pending.pop(message_id, None)
            if call is not None:
                self._open.discard(message_id)
            return call

    def pending(self, message_id: int) -> C | None:
        """Return a call that waits for its answer, or None."""
        with self._lock:
            return self._pending.get(message_id)

    def pending_ids(self) -> list[int]:
        """Return the ids of the calls that wait for their answer."""
        with self._lock:
            return list(self._pending)

    def is_waited_for(self) -> bool:
        """Return whether any caller waits for the peer."""
        with self._lock:
            return self._lanes_out > self._is_looking or bool(self._pending)

    def num_pending(self) -> int:
        """Return the number of calls that wait for their answer."""
        with self._lock:
            return len(self._pending)

    def break_off(self, error: Exception) -> int:
        """End every wait with the error, end all lanes except the shared one, and return the number
        of calls that failed.
        """
        with self._lock:
            if self._error is not None:
                return 0
            self._error = error
            lost, self._pending = self._pending, {}
            self._open.clear()
            lanes, self._free = self._free, []
            nobody_waits = self._lanes_out == 0
        self._closed.ring()
        self._end(lost.values(), lanes, error)
        if nobody_waits:
            self._closed.close()
        return len(lost)

    def fail_from_now_on(self, error: Exception) -> None:
        """End every wait with the error, and raise this error from now on, even if the pipe had
        another error before.
        """
        self.break_off(error)
        with self._lock:
            self._error = error

    def close(self, linger_s: float = 0.0) -> None:
        """Close the shared lane; break_off must have been called."""
        with self._shared_lock:
            shared, self._shared = self._shared, None
        if shared is not None:
            shared.close(linger_s)

    def _end(self, calls: Iterable[C], lanes: Iterable[OwnLane], error: Exception) -> None:
        for call in calls:
            call.fail(error)
        for own in lanes:
            own.lane.close()
