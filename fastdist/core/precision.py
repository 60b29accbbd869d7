"""How many digits products of float32 may give up for speed, on devices that can trade them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

PRECISIONS: Final = ("highest", "high", "medium")


class Products:
    """The choice, for the whole process. "highest" gives up none; GPUs may take TF32 for others.

    Thread  any
    """

    __slots__ = ("_lock", "_watchers", "precision")

    def __init__(self) -> None:
        self.precision = "highest"
        self._lock = threading.Lock()
        self._watchers: list[Callable[[str], None]] = []

    def choose(self, precision: str) -> None:
        """Choose one of PRECISIONS, and tell devices that are in use."""
        with self._lock:
            self.precision = precision
            for watcher in self._watchers:
                watcher(precision)

    def watch(self, watcher: Callable[[str], None]) -> None:
        """Tell watcher the choice now, and whenever it changes."""
        with self._lock:
            self._watchers.append(watcher)
            watcher(self.precision)

    def forget(self, watcher: Callable[[str], None]) -> None:
        """Tell watcher no more, if it was told."""
        with self._lock:
            if watcher in self._watchers:
                self._watchers.remove(watcher)


products: Final = Products()
