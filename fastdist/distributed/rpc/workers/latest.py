"""Tables that keep their latest entries alone: lives, ids and names go on without end."""

from __future__ import annotations

from typing import Any, Final, TypeVar

MOST_REMEMBERED: Final = 8192

K = TypeVar("K")


def remember(latest: dict[K, Any], key: K, value: object = None) -> None:
    """Put an entry among the latest ones, and drop the oldest where there are too many."""
    latest.pop(key, None)  # else one that comes again stays as old as it was
    latest[key] = value
    if len(latest) > MOST_REMEMBERED:
        del latest[next(iter(latest))]
