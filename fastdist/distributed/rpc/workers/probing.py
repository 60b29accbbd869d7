"""Finds out why a peer's port takes no connection: refused, no way there, or no answer."""

# libzmq says that it tries again, and not what came of the last attempt: nobody listens at the
# address any more (the worker has ended), or no packet arrives (a cable is pulled), which may pass.

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from fastdist.distributed.sockets import Attempt

from .progress import Progress
from .session import Event

_logger = logging.getLogger(__name__)

# libzmq's own attempt comes first: where that succeeds nothing needs to be found out.
_LOOK_AFTER_S = 0.25
# Who has not answered by then is not heard: the host of one who listens answers by itself.
_ANSWERS_WITHIN_S = 1.0


class Prober:
    """Tries one address while connections to it fail; `tell(event, why)` hears what comes of it.

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
        if not self._needs_to_know():
            self._will_look = False
            return
        try:
            self._attempt = attempt = Attempt(self._address)
        except OSError as error:
            self._will_look = False
            _logger.info("why %s takes no connection cannot be found: %s", self._address, error)
            return
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
