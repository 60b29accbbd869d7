"""The lane that others share, through a ring, beside a connection of ZeroMQ that is watched."""

from __future__ import annotations

from collections.abc import Sequence

from fastdist.distributed.sockets import Doorbell, monitor

from ..frames import Buffer
from ..lane import READABLE, WRITABLE, Lane
from .lane import RingLane


class WatchedRingLane(RingLane):
    """A RingLane whose stand-in connection exists from the start, and shows whether the peer is
    there.

    The end of the ring is reported as an event of that connection, as if it had broken and come
    back: the watcher greets again, and queries what became of the messages that it sent.

    Thread  as any Lane; events() and next_connection_event from one thread, while there is a ring
    """

    def __init__(self, path: str, closed: Doorbell, max_frame_bytes: int, by_zeromq: Lane) -> None:
        super().__init__(path, closed, max_frame_bytes, lambda: by_zeromq)
        self._zeromq = by_zeromq
        self.pulse = by_zeromq.pulse
        self._is_connected = False
        # Events of the ring's end that are still to be reported.
        self._to_tell: list[str] = []

    def try_send(self, frames: Sequence[Buffer]) -> bool:
        """Send a message if it can leave now, or begin to; never blocks."""
        if super().try_send(frames):
            return True
        if self._instead is not None or self._end.writer.is_busy():
            return False
        # There is no room for it at once. Its sender may change the memory that it is in.
        self._end.write_in_pieces([bytes(frame) for frame in frames])
        return True

    def events(self) -> int:
        """Return READABLE, WRITABLE, both or neither; go on with what had no room."""
        if self._instead is None:
            self._end.bell.drain()
            can_write = (not self._end.writer.is_busy() or self._end.go_on()) * WRITABLE
            if not self._end.reader.sleeps():
                return READABLE | can_write
            if not self._has_ended():
                return can_write
        return self._zeromq.events()

    def connection_fileno(self) -> int:
        """Return the descriptor of the events of ZeroMQ's connection."""
        return self._zeromq.connection_fileno()

    def next_connection_event(self) -> str | None:
        """Return the next event of the connection, or of the ring, or None."""
        if self._to_tell:
            return self._to_tell.pop(0)
        kind = self._zeromq.next_connection_event()
        if kind in (monitor.HANDSHAKE_SUCCEEDED, monitor.DISCONNECTED):
            self._is_connected = kind == monitor.HANDSHAKE_SUCCEEDED
        return kind

    def hang_up(self) -> None:
        """End the connection, which then reconnects; messages in the ring stay."""
        self._zeromq.hang_up()

    def close(self, linger_s: float = 0.0) -> None:
        """Close the lane; a second time does nothing. Sent messages stay readable."""
        super().close(linger_s)
        self._zeromq.close(linger_s)

    def _hang_up(self) -> None:
        super()._hang_up()
        self._to_tell = [monitor.DISCONNECTED]
        if self._is_connected:
            self._to_tell.append(monitor.HANDSHAKE_SUCCEEDED)
