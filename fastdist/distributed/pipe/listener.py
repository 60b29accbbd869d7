"""Listeners: where the messages of all peers arrive, and from where they are answered."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple, Protocol, TypeAlias

from .frames import Buffer

# The name of an incoming connection. Peers can choose only some names of type bytes.
Route: TypeAlias = Hashable


class Received(NamedTuple):
    """One message that came in.

    `route` names the connection, for reply. `rank` is what the sender has proved to be, None where
    its connection asks for no proof.
    """

    route: Route
    frames: list[Buffer]
    rank: int | None


class Listener(Protocol):
    """Where messages arrive.

    Thread  receive from one thread at a time; everything else from any
    """

    addresses: dict[str, str]

    def receive(self, deadline: float | None = None) -> Received | None:
        """Wait for a message; None after wake() or the deadline."""

    def try_receive(self) -> Received | None:
        """Return the next message, or None if none is there."""

    def reply(self, route: Route, frames: Sequence[Buffer]) -> bool:
        """Send a message on a connection that came in; False if that is gone. Never blocks."""

    def knows(self, route: Route) -> bool:
        """Return whether the connection of a message that came in may still be there."""

    def wake(self) -> None:
        """Let receive return None soon."""

    def fileno(self) -> int:
        """Return a descriptor that becomes readable after something may have changed."""

    def close(self, linger_s: float = 0.0) -> None:
        """Close all addresses; what was sent may take linger_s more to leave."""
