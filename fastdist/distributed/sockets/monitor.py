"""The events of a socket's connections, read by one thread."""

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
    # Without detail: the other end hung up in the middle of the handshake, as a CURVE server does
    # on a wrong key.
    int(zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL): HANDSHAKE_FAILED,
    # The other end speaks another mechanism or no ZMTP at all; libzmq does not try again.
    int(zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL): MISMATCHED,
    # The other end's ZAP handler said no, in so many words.
    int(zmq.EVENT_HANDSHAKE_FAILED_AUTH): REFUSED,
    int(zmq.EVENT_MONITOR_STOPPED): MONITOR_STOPPED,
}
_ALL = frozenset(_KINDS.values()) - {MONITOR_STOPPED}


class SocketMonitor:
    """The events of one socket. It ends when the socket closes, or before by close.

    Thread  made by the thread that owns the socket; read by one thread, which may be another
    Note    unread events are kept in memory without bound, so somebody must read them
    """

    def __init__(
        self, socket: Socket, kinds: Collection[str] = _ALL, *, reader_closes: bool = False
    ) -> None:
        """Watch socket for events of these kinds.

        Note    with reader_closes, the monitor does not close with its socket: its reader, who may
                be in the middle of a read then, calls let_go once the socket has closed
        """
        address = f"inproc://{unique_name('fastdist-monitor')}"
        self._monitored = socket
        socket.monitor(address, sum(event for event, kind in _KINDS.items() if kind in kinds))
        socket.is_monitored = True
        self.socket = open_socket(zmq.PAIR, f"monitor of {socket.name}")
        # With a high-water mark libzmq's I/O thread would block on a monitor that nobody reads.
        self.socket.set(zmq.RCVHWM, 0)
        self.socket.set(zmq.LINGER, 0)
        self.socket.connect(address)
        if not reader_closes:
            socket.when_closed(self.close)

    def fileno(self) -> int:
        """Return the edge-triggered descriptor. See Note [ZMQ_FD is edge triggered]."""
        return int(self.socket.get(zmq.FD))

    def try_receive(self) -> SocketEvent | None:
        """Return the next event, or None when there is none yet or the monitor is closed."""
        while not self.socket.closed and has_message(self.socket):
            header, endpoint = self.socket.recv_multipart()
            kind = _KINDS.get(int.from_bytes(header[:2], "little"))
            if kind is not None:
                value = int.from_bytes(header[2:6], "little")
                return SocketEvent(kind, endpoint.decode(errors="replace"), value)
        return None

    def receive(self, deadline: float | None) -> SocketEvent | None:
        """Return the next event, or None once time.monotonic() has passed deadline."""
        waiter = Waiter(self.socket)
        while True:
            event = self.try_receive()
            if event is not None or not waiter.wait(deadline):
                return event

    def close(self) -> None:
        """Stop the events; a second time does nothing. The monitored socket's close does it too.

        Thread  the monitored socket's
        """
        self._monitored.stop_monitor()
        self.let_go()

    def let_go(self) -> None:
        """Close the reading end alone; a second time does nothing.

        Thread  the reader's, after the monitored socket has closed
        """
        self.socket.close()
