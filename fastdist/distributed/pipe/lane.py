"""Lane: the interface of a connection to a peer, which one thread uses at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from fastdist.distributed.sockets import Pulse

from .frames import Buffer

READABLE: Final = 1
WRITABLE: Final = 2


class LaneClosed(Exception):
    """The peer was declared dead, or its connection broke, while a thread waited on a lane."""


class LaneInDoubt(Exception):
    """The connection may have been replaced; messages on their way may be lost."""


class LaneTimeout(TimeoutError):
    """A deadline on a lane has passed; a separate class, as user functions raise TimeoutError."""


class Lane(Protocol):
    """One connection to a peer.

    Thread  one at a time: the borrower of the lane, or the thread that holds the SharedLane's lock
    Units   deadlines are times of time.monotonic(); with None, a call waits until the lane closes
    """

    transport: str
    # None, except if the lane was created with `watched`, to another process. Then the thread that
    # reads the lane's events must call pulse.beat().
    pulse: Pulse | None

    @property
    def takes_edges(self) -> bool:
        """Whether a call on the lane may consume the event that would wake a thread which sleeps on
        fileno().
        """

    def try_send(self, frames: Sequence[Buffer]) -> bool:
        """Send a message if that is possible without blocking, and return whether it was sent."""

    def send(self, frames: Sequence[Buffer], deadline: float | None) -> None:
        """Send a message as soon as the connection accepts it.

        Raises  LaneTimeout after deadline; LaneClosed
        """

    def try_receive(self) -> list[Buffer] | None:
        """Return the frames of the next message, or None if none has arrived."""

    def receive(self, deadline: float | None) -> list[Buffer]:
        """Return the frames of the next message, waiting for it.

        Raises  LaneTimeout after deadline; LaneClosed; LaneInDoubt, within some seconds after the
                connection was replaced, and occasionally although the connection still exists
        """

    def events(self) -> int:
        """Return READABLE if try_receive would succeed, plus WRITABLE if try_send would succeed.

        Note    call events() directly before sleeping on fileno(): any other call on the lane in
                between may consume the event that would wake the thread
        """

    def fileno(self) -> int:
        """Return a descriptor that becomes readable when the state may have changed.

        Note    the descriptor changes when events() has switched the lane to another transport
        """

    def connection_fileno(self) -> int:
        """Return a descriptor that becomes readable when the connection's state changes; -1 if the
        lane has no such descriptor.
        """

    def next_connection_event(self) -> str | None:
        """Return the name (see sockets/monitor.py) of the connection's next event, or None.

        Note    only for a lane that was created with `watched`; before sleeping, call this until
                it returns None
        """

    def hang_up(self) -> None:
        """End the connection of a watched lane, which then reconnects."""

    def close(self, linger_s: float = 0.0) -> None:
        """Close the connection; data that is not sent within `linger_s` seconds is dropped."""
