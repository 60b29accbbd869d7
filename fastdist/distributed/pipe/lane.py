"""Lanes: connections to a peer, each used by one thread at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from fastdist.distributed.sockets import Pulse

from .frames import Buffer

READABLE: Final = 1
WRITABLE: Final = 2


class LaneClosed(Exception):
    """The peer was declared dead, or its connection broke, while somebody waited on a lane."""


class LaneInDoubt(Exception):
    """The connection may be another than before; what was on its way may be lost."""


class LaneTimeout(TimeoutError):
    """A deadline passed on a lane; not to be taken for the TimeoutError of somebody's function."""


class Lane(Protocol):
    """One connection to a peer.

    Thread  one at a time: whoever has checked it out, or holds the lock of its SharedLane
    Units   deadlines are of time.monotonic(); None waits until the lane is closed
    """

    transport: str
    # For a lane that was made with `watched` to another process; the reader of its events beats it.
    pulse: Pulse | None

    @property
    def takes_edges(self) -> bool:
        """Whether a call on the lane may use up what would have woken who sleeps on fileno()."""

    def try_send(self, frames: Sequence[Buffer]) -> bool:
        """Send a message if it can leave now; never blocks."""

    def send(self, frames: Sequence[Buffer], deadline: float | None) -> None:
        """Send a message as soon as the connection takes it.

        Raises  LaneTimeout after deadline; LaneClosed
        """

    def try_receive(self) -> list[Buffer] | None:
        """Return the frames of the next message, or None if none is there."""

    def receive(self, deadline: float | None) -> list[Buffer]:
        """Return the frames of the next message, waiting for it.

        Raises  LaneTimeout after deadline; LaneClosed; LaneInDoubt, at the latest some seconds
                after the connection was replaced and now and then without a reason
        """

    def events(self) -> int:
        """Return READABLE if try_receive would succeed, plus WRITABLE if try_send would.

        Note    ask before sleeping on fileno(), and nothing else in between: each call on a lane
                may use up what would have woken the sleeper
        """

    def fileno(self) -> int:
        """Return a descriptor that becomes readable after something may have changed.

        Note    another one once events() has found that the lane goes on by other means
        """

    def connection_fileno(self) -> int:
        """Return a descriptor that becomes readable when the connection changes; -1 if none."""

    def next_connection_event(self) -> str | None:
        """Return the next event of the connection, a name of sockets/monitor.py, or None.

        Note    only for a lane that was made with `watched`; None before sleeping on the descriptor
        """

    def hang_up(self) -> None:
        """End the connection of a watched lane, which then reconnects."""

    def close(self, linger_s: float = 0.0) -> None:
        """Close the connection; what was sent may take linger_s more to leave."""
