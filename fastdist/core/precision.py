"""How much precision float32 products may lose for speed, on devices that offer the choice."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, Protocol

PRECISIONS: Final = ("highest", "high", "medium")


class Choice(Protocol):
    """A process-wide setting that each product reads when it is queued."""

    @property
    def tf32(self) -> bool:
        """Whether products may be computed in TF32."""


class Products:
    """The precision of matrix products: full with "highest"; with others, GPUs may use TF32.

    Thread  any
    """

    __slots__ = ("_lock", "_watchers", "precision", "tf32")

    def __init__(self) -> None:
        self.precision, self.tf32 = "highest", False
        self._lock = threading.Lock()
        self._watchers: list[Callable[[str], None]] = []

    def choose(self, precision: str) -> None:
        """Set the precision to one of PRECISIONS, and call all watchers with it."""
        with self._lock:
            self.precision, self.tf32 = precision, precision != "highest"
            for watcher in self._watchers:
                watcher(precision)

    def watch(self, watcher: Callable[[str], None]) -> None:
        """Call `watcher` with the precision, now and after each change."""
        with self._lock:
            self._watchers.append(watcher)
            watcher(self.precision)

    def forget(self, watcher: Callable[[str], None]) -> None:
        """Unregister `watcher`, if it was registered."""
        with self._lock:
            if watcher in self._watchers:
                self._watchers.remove(watcher)


class Convolutions:
    """The precision of products in convolutions: set separately, or as for matrix products.

    Thread  any
    """

    __slots__ = ("allow_tf32", "has_own_choice")

    def __init__(self) -> None:
        self.allow_tf32 = self.has_own_choice = True

    @property
    def tf32(self) -> bool:
        """Whether products may be computed in TF32."""
        return self.allow_tf32 if self.has_own_choice else products.tf32


products: Final = Products()
convolutions: Final = Convolutions()
