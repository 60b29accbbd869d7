"""WatchedRingLane: the shared lane through a ring; it reports whether the peer is connected."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fastdist.distributed.sockets import Doorbell, Pulse, monitor

from ..frames import Buffer
from ..lane import READABLE, WRITABLE, Lane
from .lane import RingLane


class WatchedRingLane(RingLane):
    """A RingLane that reports connection events like a watched lane of ZeroMQ.

    The ring is the connection until the ring ends or hang_up() is called. The lane reports both as
    a break of the connection. After a break, `instead` creates a ZeroMQ lane, which reports whether
    the peer is back. The ZeroMQ lane is not created earlier, because its socket, monitor and
    connection use five file descriptors of the two ends. When the ring has ended, the ZeroMQ lane
    also carries the messages. The reader then sends the greeting again, and queries the state of
    its calls.

    `knock_at` is the path of the peer's Unix socket of libzmq.

    Thread  as any Lane; events() and next_connection_event: one thread, while there is a ring
    Note    after a break, next_connection_event creates the ZeroMQ lane. For most peers a break is
            final, and next_connection_event is not called again. After the end of the ring,
            try_send and try_receive do nothing until there is a ZeroMQ lane
    """

    def __init__(
        self,
        path: str,
        knock_at: str,
        closed: Doorbell,
        max_frame_bytes: int,
        instead: Callable[[Pulse], Lane],
    ) -> None:
        self._watching_pulse = Pulse()
        super().__init__(path, closed, max_frame_bytes, lambda: instead(self._watching_pulse))
        self.pulse = self._watching_pulse
        self.pulse.reached(knock_at)
        self._zeromq: Lane | None = None
        self._is_connected = True
        self._is_over = False  # whether the ring has ended
        # Connection events that next_connection_event has not returned yet.
        self._events = [monitor.HANDSHAKE_SUCCEEDED]

    def try_send(self, frames: Sequence[Buffer]) -> bool:
        """Send a message, or queue it, without blocking."""
        if self._lacks_lane():
            return False
        if super().try_send(frames):
            return True
        if self._instead is not None or self._end.writer.is_busy():
            return False
        # There is not enough space now. The frames are copied, because the sender may change their
        # memory afterwards.
        self._end.write_in_pieces([bytes(frame) for frame in frames])
        return True

    def send(self, frames: Sequence[Buffer], deadline: float | None) -> None:
        """Send a message as soon as there is space for it."""
        if self._lacks_lane():
            self._make_lane()
        super().send(frames, deadline)

    def try_receive(self) -> list[Buffer] | None:
        """Return the frames of the next message, or None if none has arrived."""
        return None if self._lacks_lane() else super().try_receive()

    def receive(self, deadline: float | None) -> list[Buffer]:
        """Return the frames of the next message, waiting for it."""
        if self._lacks_lane():
            self._make_lane()
        return super().receive(deadline)

    def events(self) -> int:
        """Return READABLE, WRITABLE, both or neither; write pending pieces first."""
        if self._lacks_lane():
            return 0
        if self._instead is not None:
            return self._instead.events()
        self._end.bell.drain()
        can_write = (not self._end.writer.is_busy() or self._end.go_on()) * WRITABLE
        if not self._end.reader.sleeps():
            return READABLE | can_write
        return 0 if self._has_ended() else can_write

    def fileno(self) -> int:
        """Return the descriptor of the bell, or of the ZeroMQ lane; -1 if the ring has ended and
        there is no ZeroMQ lane yet.
        """
        return -1 if self._lacks_lane() else super().fileno()

    def connection_fileno(self) -> int:
        """Return the descriptor of the ZeroMQ connection's events; -1 if there is no ZeroMQ
        lane.
        """
        return -1 if self._zeromq is None else self._zeromq.connection_fileno()

    def next_connection_event(self) -> str | None:
        """Return the next event of the ring or the ZeroMQ connection, or None."""
        if self._events:
            return self._events.pop(0)
        if self._zeromq is None:
            if self._is_connected:
                return None
            self._make_lane()
        assert self._zeromq is not None
        kind = self._zeromq.next_connection_event()
        if kind in (monitor.HANDSHAKE_SUCCEEDED, monitor.DISCONNECTED):
            self._is_connected = kind == monitor.HANDSHAKE_SUCCEEDED
        return kind

    def hang_up(self) -> None:
        """End the connection; ZeroMQ then reconnects. Messages in the ring can still be read."""
        if self._zeromq is not None:
            self._zeromq.hang_up()
        elif self._is_connected:
            self._break()

    def close(self, linger_s: float = 0.0) -> None:
        """Close the lane; a second call has no effect. The peer can still read sent messages."""
        super().close(linger_s)
        self._watching_pulse.disconnected()
        if self._zeromq is not None:
            self._zeromq.close(linger_s)

    def _lacks_lane(self) -> bool:
        return self._is_over and self._instead is None

    def _make_lane(self) -> None:
        self._zeromq = self._zeromq or self._make_instead()
        if self._is_over:
            self._instead = self._zeromq

    def _break(self) -> None:
        self._watching_pulse.disconnected()
        self._events, self._is_connected = [monitor.DISCONNECTED], False

    def _has_ended(self) -> bool:
        if not self._is_over and self._end.bell.has_ended:
            self._hang_up()
        return self._is_over

    def _hang_up(self) -> None:
        self._end.release()
        self._is_over = True
        if self._zeromq is None:
            self._break()
            return
        self._instead = self._zeromq
        self._events = [monitor.DISCONNECTED]
        if self._is_connected:
            self._events.append(monitor.HANDSHAKE_SUCCEEDED)
