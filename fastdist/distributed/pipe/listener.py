"""Listener: the interface that receives the messages of all peers, and answers them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple, Protocol, TypeAlias

from .frames import Buffer

# The name of an incoming connection. A peer may have chosen the name itself if its type is bytes;
# the listener chooses names of other types.
Route: TypeAlias = Hashable


class Received(NamedTuple):
    """One message that arrived.

    `route` is the name of the connection, for `reply`. `rank` is the authenticated rank of the
    sender, or None if the connection requires no authentication.
    """

    route: Route
    frames: list[Buffer]
    rank: int | None


class Listener(Protocol):
    """The receiving end of messages.

    Thread  receive: one thread at a time; all other methods: any
    """

    addresses: dict[str, str]

    def receive(self, deadline: float | None = None) -> Received | None:
        """Wait for a message, and return it; None after wake() or at the deadline."""

    def try_receive(self) -> Received | None:
        """Return the next message, or None if none has arrived."""

    def reply(self, route: Route, frames: Sequence[Buffer]) -> bool:
        """Send a message on an incoming connection without blocking; return False if the
        connection is gone.
        """

    def knows(self, route: Route) -> bool:
        """Return whether the connection of a received message may still exist."""

    def wake(self) -> None:
        """Make `receive` return None soon."""

    def fileno(self) -> int:
        """Return a descriptor that becomes readable when the state may have changed."""

    def close(self, linger_s: float = 0.0) -> None:
        """Close all addresses; data that is not sent within `linger_s` seconds is dropped."""
