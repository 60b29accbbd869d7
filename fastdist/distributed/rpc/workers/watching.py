"""The presence of a peer: its pulse, and why its port accepts no connection."""

# libzmq reports that it tries again, and not why the last attempt failed: nobody listens at the
# address any more (the worker has ended), or no packet arrives (a cable is pulled), which may pass.

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

# A knock takes 100 to 200 us of both ends together. A worker with many peers sends no more idle
# knocks than this, so that 64 workers of one machine leave it its cores.
_IDLE_KNOCKS_A_SECOND = 8.0

# The event of a session that an event of its connection is.
EVENT_OF: Final = {
    monitor.HANDSHAKE_SUCCEEDED: Event.CONNECTED,
    monitor.DISCONNECTED: Event.DISCONNECTED,
    # Also what a frozen peer's host leads to: it takes the connection, and nobody answers.
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
        """Return whether the lane goes on by other means."""
        return self._lane.fileno() != self._fds[0]

    def watch(self) -> None:
        """Watch what the lane has now."""
        self._fds = self._lane.fileno(), self._lane.connection_fileno()
        for fd, reader in zip(self._fds, self._readers, strict=True):
            if fd >= 0:
                self._progress.watch(fd, reader)

    def unwatch(self) -> None:
        """Watch nothing."""
        for fd in self._fds:
            self._progress.unwatch(fd)


class PulseTaker:
    """Beats the pulse of one watched lane, and hangs up on a peer that is frozen.

    `ask` asks the peer's Python for a sign of life.

    `is_waited_for` says whether a call here waits for the peer: then each beat knocks.

    Everything else follows from the broken connection, as if its cable had been cut: see
    session.py. Calls are queried when the peer wakes.

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
        # Spread for peers that were met at once, one after the other.
        self._knock_at = time.monotonic() + progress.num_pulses / _IDLE_KNOCKS_A_SECOND
        # Set by readers of the peer's messages: cheaper than a call, and read once a beat.
        self.was_heard = False
        # A descriptor that is closed may be another's at once.
        pulse.before_close = lambda knock: progress.unwatch(knock.fileno())
        progress.call_at(next_beat(), self._beat)

    def stop(self) -> None:
        """Beat no more."""
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
            # libzmq over there may just be unable to take one more connection.
            self._ask()
        knock = self._pulse.knock
        if knock is not None and knock is not before and knock.fileno() >= 0:
            self._progress.watch(knock.fileno(), self._pulse.look)


# libzmq's own attempt comes first: where that succeeds nothing needs to be found out.
_LOOK_AFTER_S = 0.25
# After this time an attempt counts as unanswered: the host of a listener answers on its own.
_ANSWERS_WITHIN_S = 1.0


class Prober:
    """Tries one address while connections to it fail; `tell(event, why)` gets the results.

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
        """Find out why a connection failed, unless that is under way."""
        if not self._will_look:
            self._will_look = True
            self._progress.call_at(time.monotonic() + _LOOK_AFTER_S, self._look)

    def stop(self) -> None:
        """Drop an attempt that is under way."""
        if self._attempt is not None:
            self._progress.unwatch(self._attempt.fileno())
            self._attempt.close()
            self._attempt = None

    def _look(self) -> None:
        # Set again once an attempt is under way: one that fails must not be the last.
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
        # Read at once if it has failed already: an error stays on the descriptor.
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
