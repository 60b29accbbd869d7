"""Checks of a peer: its pulse, and the reason why its port accepts no connection."""

# libzmq reports that it connects again, but not why the last attempt failed. Either nobody listens
# at the address any more (the worker has ended), or no packet arrives (a cable is pulled), which
# may be temporary.

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

from fastdist.distributed.pipe.lane import Lane
from fastdist.distributed.sockets import Attempt, Beat, Pulse, monitor, next_beat

from .progress import Progress
from .session import Event

_logger = logging.getLogger(__name__)

# A knock costs both ends together 100 to 200 us. A worker with many peers sends at most this many
# idle knocks per second, so that 64 workers on one machine leave the cores to users' code.
_IDLE_KNOCKS_A_SECOND = 8.0

# The session's event for each event of the connection.
EVENT_OF: Final = {
    monitor.HANDSHAKE_SUCCEEDED: Event.CONNECTED,
    monitor.DISCONNECTED: Event.DISCONNECTED,
    # The handshake also fails if the peer is frozen: its host accepts the connection, but the peer
    # does not answer.
    monitor.HANDSHAKE_FAILED: Event.DISCONNECTED,
    monitor.CONNECT_RETRIED: Event.RETRIED,
    monitor.CONNECTED: Event.REACHED,
    monitor.REFUSED: Event.REJECTED,
}


class LaneDescriptors:
    """The descriptors of lane 0 while the progress thread watches them.

    Thread  the progress thread
    """

    def __init__(
        self,
        lane: Lane,
        progress: Progress,
        read: Callable[[], None],
        read_connection: Callable[[], None],
    ) -> None:
        self._lane, self._progress = lane, progress
        self._readers = read, read_connection
        self.watch()

    def are_others(self) -> bool:
        """Return whether the lane's descriptors have changed since `watch` was called."""
        return self._lane.fileno() != self._fds[0]

    def watch(self) -> None:
        """Watch the present descriptors of the lane."""
        self._fds = self._lane.fileno(), self._lane.connection_fileno()
        for fd, reader in zip(self._fds, self._readers, strict=True):
            if fd >= 0:
                self._progress.watch(fd, reader)

    def unwatch(self) -> None:
        """Stop watching the descriptors."""
        for fd in self._fds:
            self._progress.unwatch(fd)


class PulseTaker:
    """Beats the pulse of one watched lane, and closes the connection to a frozen peer.

    `ask` sends a query to the peer's Python. `is_waited_for` returns whether a call here waits for
    the peer; if so, each beat knocks.

    The closed connection has the same effects as a cut cable: see session.py. When the peer wakes,
    this worker queries the state of its calls to the peer.

    Thread  the progress thread
    """

    def __init__(
        self,
        hang_up: Callable[[], None],
        pulse: Pulse,
        progress: Progress,
        ask: Callable[[], None],
        is_waited_for: Callable[[], bool],
    ) -> None:
        self._hang_up = hang_up
        self._pulse = pulse
        self._progress = progress
        self._ask = ask
        self._is_waited_for = is_waited_for
        self._is_over = False
        progress.num_pulses += 1
        # Offset by the number of peers, so that the knocks to peers that were connected at the same
        # time are spread out.
        self._knock_at = time.monotonic() + progress.num_pulses / _IDLE_KNOCKS_A_SECOND
        # Whether a message of the peer was read since the last beat. The reader of messages sets
        # this attribute directly, because a call would cost more.
        self.was_heard = False
        # Stop watching the descriptor before it is closed: the kernel may use its number again.
        pulse.before_close = lambda knock: progress.unwatch(knock.fileno())
        progress.call_at(next_beat(), self._beat)

    def stop(self) -> None:
        """Stop the beats."""
        self._is_over = True
        self._progress.num_pulses -= 1
        self._pulse.heard()

    def _beat(self) -> None:
        if self._is_over:
            return
        self._progress.call_at(next_beat(), self._beat)
        now = time.monotonic()
        if self.was_heard:
            self.was_heard = False
            self._pulse.heard()
            self._knock_at = now + self._progress.num_pulses / _IDLE_KNOCKS_A_SECOND
            return
        if not self._pulse.awaits_answer and now < self._knock_at and not self._is_waited_for():
            return
        self._knock_at = now + self._progress.num_pulses / _IDLE_KNOCKS_A_SECOND
        before, found = self._pulse.knock, self._pulse.beat()
        if found is Beat.FROZEN:
            self._pulse.heard()
            self._hang_up()
            return
        if found is Beat.LATE:
            # The peer may be well although its libzmq cannot accept another connection.
            self._ask()
        knock = self._pulse.knock
        if knock is not None and knock is not before and knock.fileno() >= 0:
            self._progress.watch(knock.fileno(), self._pulse.look)


# libzmq tries to connect again before this time. If it succeeds, no attempt of a Prober is needed.
_LOOK_AFTER_S = 0.25
# An attempt counts as unanswered after this time. The kernel of a listener's host answers attempts,
# so a busy Python there does not delay the answer.
_ANSWERS_WITHIN_S = 1.0


class Prober:
    """Connects to one address while connections to it fail; `tell(event, why)` gets the results.

    Thread  the progress thread
    """

    def __init__(
        self,
        address: str,
        progress: Progress,
        needs_to_know: Callable[[], bool],
        tell: Callable[[Event, str], None],
    ) -> None:
        self._address = address
        self._progress = progress
        self._needs_to_know = needs_to_know
        self._tell = tell
        self._will_look = False
        self._attempt: Attempt | None = None

    def look_soon(self) -> None:
        """Find out soon why a connection failed, unless an attempt is under way."""
        if not self._will_look:
            self._will_look = True
            self._progress.call_at(time.monotonic() + _LOOK_AFTER_S, self._look)

    def stop(self) -> None:
        """Cancel an attempt that is under way."""
        if self._attempt is not None:
            self._progress.unwatch(self._attempt.fileno())
            self._attempt.close()
            self._attempt = None

    def _look(self) -> None:
        # False until an attempt is under way, so that look_soon works again after an error.
        self._will_look = False
        if not self._needs_to_know():
            return
        try:
            self._attempt = attempt = Attempt(self._address)
        except OSError as error:
            _logger.info(
                "cannot find out why %s does not accept connections: %s", self._address, error
            )
            return
        self._will_look = True
        # If the attempt has failed already, poll reports this immediately, because the error stays
        # on the descriptor.
        self._progress.watch(attempt.fileno(), self._conclude)
        self._progress.call_at(
            time.monotonic() + _ANSWERS_WITHIN_S, lambda: self._conclude(attempt)
        )

    def _conclude(self, attempt: Attempt | None = None) -> None:
        ended = self._attempt
        if ended is None or attempt not in (None, ended):
            return
        was_refused, why = ended.was_refused, ended.why_not()
        self.stop()
        self._will_look = False
        if was_refused:
            self._tell(Event.REFUSED, "")
        elif why:
            self._tell(Event.UNREACHED, why)
