"""Tables that keep only their latest entries: the number of lives, ids and names is unlimited."""

from __future__ import annotations

from typing import Any, Final, TypeVar

MOST_REMEMBERED: Final = 8192

K = TypeVar("K")


def remember(latest: dict[K, Any], key: K, value: object = None) -> None:
    """Put an entry into the table as the latest one; drop the oldest if there are too many."""
    latest.pop(key, None)  # an entry that comes again moves to the end
    latest[key] = value
    if len(latest) > MOST_REMEMBERED:
        del latest[next(iter(latest))]
