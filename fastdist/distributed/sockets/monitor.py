"""The connection events of a socket, read by one thread."""

from __future__ import annotations

from collections.abc import Collection

import zmq

from .context import Socket, open_socket, unique_name
from .events import (
    ACCEPT_FAILED,
    ACCEPTED,
    CONNECT_RETRIED,
    CONNECTED,
    DISCONNECTED,
    HANDSHAKE_FAILED,
    HANDSHAKE_SUCCEEDED,
    LISTENING,
    MISMATCHED,
    MONITOR_STOPPED,
    REFUSED,
    SocketEvent,
)
from .waiting import Waiter, has_message

__all__ = [
    "ACCEPTED",
    "ACCEPT_FAILED",
    "CONNECTED",
    "CONNECT_RETRIED",
    "DISCONNECTED",
    "HANDSHAKE_FAILED",
    "HANDSHAKE_SUCCEEDED",
    "LISTENING",
    "MISMATCHED",
    "MONITOR_STOPPED",
    "REFUSED",
    "SocketEvent",
    "SocketMonitor",
]

_KINDS = {
    int(zmq.EVENT_CONNECTED): CONNECTED,
    int(zmq.EVENT_CONNECT_RETRIED): CONNECT_RETRIED,
    int(zmq.EVENT_LISTENING): LISTENING,
    int(zmq.EVENT_ACCEPTED): ACCEPTED,
    int(zmq.EVENT_ACCEPT_FAILED): ACCEPT_FAILED,
    int(zmq.EVENT_DISCONNECTED): DISCONNECTED,
    int(zmq.EVENT_HANDSHAKE_SUCCEEDED): HANDSHAKE_SUCCEEDED,
    # Without detail: the other end closed the connection during the handshake, as a CURVE server
    # does for a wrong key.
    int(zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL): HANDSHAKE_FAILED,
    # The other end uses another mechanism, or another protocol than ZMTP; libzmq does not try
    # again.
    int(zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL): MISMATCHED,
    # The other end's ZAP handler refused explicitly.
    int(zmq.EVENT_HANDSHAKE_FAILED_AUTH): REFUSED,
    int(zmq.EVENT_MONITOR_STOPPED): MONITOR_STOPPED,
}
_ALL = frozenset(_KINDS.values()) - {MONITOR_STOPPED}


class SocketMonitor:
    """The events of one socket, until that socket closes or `close` is called.

    Thread  created by the thread that owns the socket; read by one thread, which may be another one
    Note    the memory for unread events has no limit, so they must be read
    """

    def __init__(
        self, socket: Socket, kinds: Collection[str] = _ALL, *, reader_closes: bool = False
    ) -> None:
        """Monitor `socket` for events of these kinds.

        Note    with `reader_closes`, the monitor stays open when `socket` closes, because its
                reader may be in the middle of a read; the reader calls let_go after `socket` has
                closed
        """
        address = f"inproc://{unique_name('fastdist-monitor')}"
        self._monitored = socket
        socket.monitor(address, sum(event for event, kind in _KINDS.items() if kind in kinds))
        socket.is_monitored = True
        self.socket = open_socket(zmq.PAIR, f"monitor of {socket.name}")
        # With a high-water mark, libzmq's I/O thread would block if nothing reads the monitor.
        self.socket.set(zmq.RCVHWM, 0)
        self.socket.set(zmq.LINGER, 0)
        self.socket.connect(address)
        if not reader_closes:
            socket.when_closed(self.close)

    def fileno(self) -> int:
        """Return the edge-triggered descriptor. See Note [ZMQ_FD is edge triggered]."""
        return int(self.socket.get(zmq.FD))

    def try_receive(self) -> SocketEvent | None:
        """Return the next event; None if there is none yet, or if the monitor is closed."""
        while not self.socket.closed and has_message(self.socket):
            header, endpoint = self.socket.recv_multipart()
            kind = _KINDS.get(int.from_bytes(header[:2], "little"))
            if kind is not None:
                value = int.from_bytes(header[2:6], "little")
                return SocketEvent(kind, endpoint.decode(errors="replace"), value)
        return None

    def receive(self, deadline: float | None) -> SocketEvent | None:
        """Return the next event; None once time.monotonic() has passed `deadline`."""
        waiter = Waiter(self.socket)
        while True:
            event = self.try_receive()
            if event is not None or not waiter.wait(deadline):
                return event

    def close(self) -> None:
        """Stop the events; a second call does nothing. Closing the monitored socket does the same.

        Thread  the thread of the monitored socket
        """
        self._monitored.stop_monitor()
        self.let_go()

    def let_go(self) -> None:
        """Close only the reading end; a second call does nothing.

        Thread  the reader's thread, after the monitored socket has closed
        """
        self.socket.close()
