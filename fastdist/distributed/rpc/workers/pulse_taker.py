"""Who feels a peer's pulse, and breaks off the connection to one whose process does not run."""

from __future__ import annotations

import time
from collections.abc import Callable

from fastdist.distributed.pipe.lane import Lane
from fastdist.distributed.sockets import Beat, Pulse, next_beat

from .progress import Progress

# A knock takes 100 to 200 us of both ends together. Whoever has many peers knocks no more often
# than this at those that nobody waits for, so that 64 workers of one machine leave it its cores.
_IDLE_KNOCKS_A_SECOND = 8.0


class PulseTaker:
    """Beats the pulse of one watched lane; `ask` asks the peer's Python for a sign of life.

    `is_waited_for` tells whether somebody here waits for the peer: then it is knocked at each beat.

    A broken connection is what all else follows from, as if its cable had been cut: see
    session.py. What has been sent is asked about when the peer wakes.

    Thread  the progress thread
    """

    def __init__(
        self,
        lane: Lane,
        pulse: Pulse,
        progress: Progress,
        ask: Callable[[], None],
        is_waited_for: Callable[[], bool],
    ) -> None:
        self._lane = lane
        self._pulse = pulse
        self._progress = progress
        self._ask = ask
        self._is_waited_for = is_waited_for
        self._is_over = False
        progress.num_pulses += 1
        # Of those that were met at once, one after the other.
        self._knock_at = time.monotonic() + progress.num_pulses / _IDLE_KNOCKS_A_SECOND
        # Set by who reads anything of the peer: cheaper than a call, and asked for once a beat.
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
        if self._pulse.knock is None and now < self._knock_at and not self._is_waited_for():
            return
        self._knock_at = now + self._progress.num_pulses / _IDLE_KNOCKS_A_SECOND
        found = self._pulse.beat()
        if found is Beat.FROZEN:
            self._pulse.heard()
            self._lane.hang_up()
        elif found is Beat.LATE:
            # libzmq over there may just be unable to take one more connection.
            self._ask()
        elif self._pulse.knock is not None and self._pulse.knock.fileno() >= 0:
            self._progress.watch(self._pulse.knock.fileno(), self._pulse.heard)
