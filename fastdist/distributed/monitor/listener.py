"""A listening socket, and the thread that accepts its connections."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import Final

_PAUSE_S: Final = 0.1


class Listener:
    """Accepts connections on a daemon thread, which sleeps until a client connects.

    Args:
        listening: The bound socket; `close` closes the socket.
        serve: Called with each connection, on the daemon thread. It must close the connection, and
            must not raise.
        name: The name of the thread.

    Threads: any.
    """

    def __init__(
        self, listening: socket.socket, serve: Callable[[socket.socket], None], name: str
    ) -> None:
        self._socket, self._serve, self._name = listening, serve, name
        self._is_closed = threading.Event()

    def start(self) -> None:
        """Start to accept connections."""
        threading.Thread(target=self._accept, name=self._name, daemon=True).start()

    def close(self) -> None:
        """Stop accepting connections."""
        self._is_closed.set()
        # shutdown() ends a blocked accept(); close() would not.
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # already closed
        self._socket.close()

    def _accept(self) -> None:
        while not self._is_closed.is_set():
            try:
                connection, _ = self._socket.accept()
            except OSError:
                # No file descriptor is free, or a connection was reset before it was accepted.
                self._is_closed.wait(_PAUSE_S)
                continue
            self._serve(connection)
