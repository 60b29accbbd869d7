"""Errors inside a store: reported to the client each time, logged once of each kind."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Hashable
from types import CodeType

_logger = logging.getLogger(__name__)
_MOST_LETTERS = 1000


class Mistakes:
    """Knows which mistakes have been logged: whoever asks once can ask a million times.

    Thread  one at a time; the caller locks
    """

    def __init__(self) -> None:
        # Invariant: bounded by our code, not by requests.
        self._logged: set[Hashable] = set()

    def note(self, what: str, error: Exception) -> str:
        """Log where in our code doing `what` raised error, if it is new; return it in words."""
        *_, (frame, line) = traceback.walk_tb(error.__traceback__)
        place: tuple[type[Exception], CodeType, int] = (type(error), frame.f_code, line)
        shown = repr(error)[:_MOST_LETTERS]
        if self._is_new(place):
            # In letters that any log can hold: the text may contain the request.
            told = "".join(traceback.format_exception(error)).encode(errors="backslashreplace")
            _logger.error(
                "%s failed at the store because of a bug in fastdist: %s; its client got the "
                "error, the store goes on, and further errors of this kind are not logged\n%s",
                *(what, shown, told.decode()),
            )
        return (
            f"{what} failed at the store because of a bug in fastdist: {shown}; the store goes "
            "on, and the log of the process that hosts it says where"
        )

    def warn_once(self, kind: str, text: str) -> None:
        """Log text, unless one of its kind was."""
        if self._is_new(kind):
            _logger.warning("%s", text)

    def _is_new(self, kind: Hashable) -> bool:
        is_new = kind not in self._logged
        self._logged.add(kind)
        return is_new
