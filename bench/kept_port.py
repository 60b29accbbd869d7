"""A reserved port, on which a process of a benchmark or a test listens later."""

from __future__ import annotations

import socket


class KeptPort:
    """A port of 127.0.0.1 that the system does not assign to other sockets.

    A process that knows the port's number can listen on it.
    """

    def __init__(self) -> None:
        self._socket = socket.socket()
        # libzmq sets SO_REUSEADDR too, so it can bind the port while no other socket listens.
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("127.0.0.1", 0))
        self.number = int(self._socket.getsockname()[1])

    def close(self) -> None:
        """Release the port."""
        self._socket.close()
