"""Who feels a peer's pulse, and breaks off the connection to one whose process does not run."""

from __future__ import annotations

from collections.abc import Callable

from fastdist.distributed.pipe.lane import Lane
from fastdist.distributed.sockets import Beat, Pulse, next_beat

from .progress import Progress


class PulseTaker:
    """Beats the pulse of one watched lane; `ask` asks the peer's Python for a sign of life.

    A broken connection is what all else follows from, as if its cable had been cut: see
    peer_state.py. What has been sent is asked about when the peer wakes.

    Thread  the progress thread
    """

    def __init__(
        self, lane: Lane, pulse: Pulse, progress: Progress, ask: Callable[[], None]
    ) -> None:
        self._lane = lane
        self._pulse = pulse
        self._progress = progress
        self._ask = ask
        self._is_over = False
        # Set by who reads anything of the peer: cheaper than a call, and asked for once a beat.
        self.was_heard = False
        # A descriptor that is closed may be another's at once.
        pulse.before_close = lambda knock: progress.unwatch(knock.fileno())
        progress.call_at(next_beat(), self._beat)

    def stop(self) -> None:
        """Beat no more."""
        self._is_over = True
        self._pulse.heard()

    def _beat(self) -> None:
        if self._is_over:
            return
        self._progress.call_at(next_beat(), self._beat)
        if self.was_heard:
            self.was_heard = False
            self._pulse.heard()
            return
        found = self._pulse.beat()
        if found is Beat.FROZEN:
            self._pulse.heard()
            self._lane.hang_up()
        elif found is Beat.LATE:
            # libzmq over there may just be unable to take one more connection.
            self._ask()
        elif self._pulse.knock is not None and self._pulse.knock.fileno() >= 0:
            self._progress.watch(self._pulse.knock.fileno(), self._pulse.heard)
