"""A worker's whole relation to one peer: its lanes, the calls without answer, and their end."""

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

# Lanes for callers that block, in addition to the shared lane 0. A caller that finds none left uses
# lane 0 and waits for its Future: if it waited for a lane, calls that nest A -> B -> A could all
# wait.
MAX_OWN_LANES: Final = 8
# A caller that finds no free lane while `drain_idle_lanes` reads one waits for that lane:
# microseconds as a rule, and at most this long where reading it replaces its connection.
_LOOK_S: Final = 0.05

_logger = logging.getLogger(__name__)


class PendingCall(Protocol):
    """A call without answer yet."""

    def fail(self, error: Exception) -> None:
        """End the call with an error, if it has not ended otherwise."""


C = TypeVar("C", bound=PendingCall)


class OwnLane:
    """A lane that one blocking caller has to itself."""

    __slots__ = ("greet", "greeting", "lane", "number", "serial")

    def __init__(self, lane: Lane, number: int, greet: Callable[[], list[Buffer]]) -> None:
        self.lane = lane
        self.number = number
        # Makes what must be the first message on every connection of the lane.
        self.greet = greet
        # The message to send before the first call; None once it is sent.
        self.greeting: list[Buffer] | None = greet()
        # The serial of the last query about a call.
        self.serial = 0

    def send_greeting(self, deadline: float | None) -> None:
        """Send the message that precedes the first call; while `greeting` shows that it is not
        sent.

        Raises  as Lane.send does; then it is not sent
        """
        assert self.greeting is not None
        self.lane.send(self.greeting, deadline)
        self.greeting = None


class Pipe(Generic[C]):
    """Lanes to one peer, and the calls that wait for it.

    `connect(bell, number)` makes a lane that ends when the bell rings; `greet(number)` is the
    message that must be the first one on it.

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
        # Guards everything below. No lane is made, used or closed, and no call failed, under it.
        self._lock = threading.RLock()
        self._look_ended = threading.Condition(self._lock)
        self._closed = Doorbell()
        # Raised as a copy: an error that is raised again and again collects the frames of all who
        # raised it, and with them whatever they held.
        self._error: Exception | None = None
        self._pending: dict[int, C] = {}
        # The calls of lane 0 that have an id and have not ended; the latest id that one was given.
        self._open: set[int] = set()
        self._latest_id = -1
        self._free: list[OwnLane] = []
        # Numbers of lanes that do not exist. They are few and used again, the lowest first, so that
        # a peer need remember no more lanes than there may be at once.
        self._free_numbers = list(range(max_own_lanes, 0, -1))
        self._lanes_out = 0
        # Whether drain_idle_lanes has one of them, and not a caller.
        self._is_looking = False
        self._shared: SharedLane | None = None
        self._shared_lock = threading.RLock()

    @property
    def error(self) -> Exception | None:
        """Why this pipe is in error for good; None while it can be used."""
        return self._error

    def borrow_lane(self) -> OwnLane | None:
        """Return a lane for the caller alone, or None if all are taken.

        Raises  the pipe's error
        """
        with self._lock:
            if self._error is not None:
                raise copy.copy(self._error)
            if not self._free and self._is_looking:
                # Without this each look could cost one more connection, up to the most there are.
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
        """Give a lane back; a broken one is closed, as is every one of a pipe in error."""
        if broken:
            # Before another lane can have its number: this one says no more.
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
        """Return the messages that arrived by idle lanes.

        They are answers to calls that were given up, or that come twice, after a query about the
        call.

        A lane that cannot be read is closed: the next caller makes another one.

        Thread  one at a time
        Note    they may hold the peer's memory, or promises, until they are read
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
                except Exception:  # one lane must not keep the others from being read
                    _logger.warning("closing an idle lane, which failed", exc_info=True)
                finally:
                    self._end_look(own, is_broken=is_broken)
        return came

    def _begin_look(self, own: OwnLane) -> bool:
        """Take a lane out of the free ones; False if a caller was faster."""
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
        """Return lane 0, made now if nobody asked before.

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
                    # While it is made, the bell that ends it must not be closed.
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
        """Start again on lane 0, whose connection was lost and came back."""
        shared = self._shared
        if shared is not None:
            shared.resume(self._greet(0))

    def notify(self, frames: list[Buffer]) -> None:
        """Send a message on lane 0 that nobody answers, unless that is closed or was never made."""
        shared = self._shared
        if shared is not None:
            shared.send(frames)

    def open_call(self, new_id: Callable[[], int]) -> int:
        """Return the id of a call that begins on lane 0; until `close_call` it may be sent.

        Note    ids grow in the order of these calls: see open_calls
        """
        with self._lock:
            message_id = self._latest_id = new_id()
            self._open.add(message_id)
            return message_id

    def close_call(self, message_id: int) -> None:
        """Let a call be over that has not become a pending one."""
        with self._lock:
            self._open.discard(message_id)

    def open_calls(self, at_most: int) -> tuple[int, list[int]]:
        """Return an id below which all calls of lane 0 are over, but for those in the list."""
        with self._lock:
            floor, still_open = self._latest_id + 1, list(self._open)
        still_open.sort()
        if len(still_open) > at_most:
            floor = still_open[at_most]
            del still_open[at_most:]
        return floor, still_open

    def add_pending(self, message_id: int, call: C) -> None:
        """Remember a call until its answer comes.

        Raises  the pipe's error
        """
        with self._lock:
            if self._error is not None:
                self._open.discard(message_id)
                raise copy.copy(self._error)
            self._pending[message_id] = call

    def take_pending(self, message_id: int) -> C | None:
        """Forget and return a call; None if it has ended before: then its answer is late."""
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
        """Return whether somebody waits for the peer."""
        with self._lock:
            return self._lanes_out > self._is_looking or bool(self._pending)

    def num_pending(self) -> int:
        """Return how many calls wait for their answer."""
        with self._lock:
            return len(self._pending)

    def break_off(self, error: Exception) -> int:
        """End every wait with error, and every lane but the shared one; return how many calls."""
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
        """End every wait with error, and fail all that comes with it, whatever ended it before."""
        self.break_off(error)
        with self._lock:
            self._error = error

    def close(self, linger_s: float = 0.0) -> None:
        """Close the shared lane; break_off came before."""
        with self._shared_lock:
            shared, self._shared = self._shared, None
        if shared is not None:
            shared.close(linger_s)

    def _end(self, calls: Iterable[C], lanes: Iterable[OwnLane], error: Exception) -> None:
        for call in calls:
            call.fail(error)
        for own in lanes:
            own.lane.close()
