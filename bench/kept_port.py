"""A port that is a benchmark's, or a test's, before anybody listens there."""

from __future__ import annotations

import socket


class KeptPort:
    """A port of 127.0.0.1 that the system assigns to nobody, also not as a connection's own.

    A process that knows its number can listen there.
    """

    def __init__(self) -> None:
        self._socket = socket.socket()
        # libzmq sets it as well, and so finds the port free as long as nobody listens.
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("127.0.0.1", 0))
        self.number = int(self._socket.getsockname()[1])

    def close(self) -> None:
        """Let others have it."""
        self._socket.close()
