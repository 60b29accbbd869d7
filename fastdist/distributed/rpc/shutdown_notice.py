"""Says, while a shutdown lasts, for whom it waits."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from types import TracebackType

from .workers.progress import Progress

_logger = logging.getLogger(__name__)

# A worker that only serves waits for the job's end here, and is right to: so the pauses double.
FIRST_S = 5.0


class ShutdownNotice:
    """A line in the log after 5 s, and after twice the time each time; nothing if all is quick.

    `whom()` says for whom, in words, and may ask the store; nothing is said where it has none.

    Thread  any; `whom` runs where `submit` lets it, beside the one that waits
    """

    def __init__(
        self,
        who: str,
        progress: Progress,
        submit: Callable[[Callable[[], None]], object],
        whom: Callable[[], str],
    ) -> None:
        self._who = who
        self._progress = progress
        self._submit = submit
        self._whom = whom
        self._began = time.monotonic()
        self._is_over = False

    def __enter__(self) -> None:
        self._tell_after(FIRST_S)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._is_over = True

    def _tell_after(self, seconds: float) -> None:
        when = self._began + seconds
        self._progress.post(self._progress.call_at, when, lambda: self._is_due(seconds))

    def _is_due(self, seconds: float) -> None:
        if not self._is_over:
            self._submit(lambda: self._tell(seconds))

    def _tell(self, seconds: float) -> None:
        whom = self._whom()
        if self._is_over:
            return
        if whom:
            _logger.warning(
                "worker %r has waited in shutdown() for %g s: %s", self._who, seconds, whom
            )
        self._tell_after(2.0 * seconds)
