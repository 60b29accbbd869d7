"""Internal errors of a store: reported to the client each time, logged once for each kind."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Hashable
from types import CodeType

_logger = logging.getLogger(__name__)
_MOST_LETTERS = 1000


class Mistakes:
    """Remembers which errors were logged, as a client may repeat a request a million times.

    Thread  one at a time; the caller locks
    """

    def __init__(self) -> None:
        # The set has at most one entry for each code line that may fail, not one for each request.
        self._logged: set[Hashable] = set()

    def note(self, what: str, error: Exception) -> str:
        """Log an internal error of operation `what` once for each code line; return a message."""
        *_, (frame, line) = traceback.walk_tb(error.__traceback__)
        place: tuple[type[Exception], CodeType, int] = (type(error), frame.f_code, line)
        shown = repr(error)[:_MOST_LETTERS]
        if self._is_new(place):
            # Escaped, as the text may contain bytes of the request that a log cannot encode.
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
        """Log text, unless a text of this kind was logged before."""
        if self._is_new(kind):
            _logger.warning("%s", text)

    def _is_new(self, kind: Hashable) -> bool:
        is_new = kind not in self._logged
        self._logged.add(kind)
        return is_new
