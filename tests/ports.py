"""Ports of this machine that are a test's before anybody listens there, and whether it has IPv6."""

from __future__ import annotations

import socket


def ipv6_loopback() -> list[str]:
    """Return ::1 where this machine has it; some have no IPv6, or have it switched off."""
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return ["::1"]
    except OSError:
        return []


class KeptPort:
    """A port of 127.0.0.1 that nobody is given who asks for any, not as a connection's own, either.

    Who knows its number can listen there.
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
