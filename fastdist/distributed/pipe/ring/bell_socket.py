"""The bell of a ring: a unix socket whose bytes wake the peer, and whose end is the peer's end."""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import Final

_BYTE: Final = b"\0"
_AT_ONCE: Final = 4096
# A peer that rings faster than this process reads must not hold up others: the rest is read the
# next time.
_MOST_READS: Final = 64


class BellSocket:
    """A connected unix socket that only wakes its peer.

    Thread  ring from any; drain from the reader of the ring
    """

    __slots__ = ("_socket", "fd", "has_ended")

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self.fd = connected.fileno()
        # The other end has closed: it reads and writes no more. Its earlier messages can be read.
        self.has_ended = False

    def ring(self) -> None:
        """Wake whoever sleeps at the other end."""
        try:
            self._socket.send(_BYTE)
        except BlockingIOError:
            pass  # so many bytes wake it as well
        except OSError:
            self.has_ended = True

    def drain(self) -> None:
        """Read the bell: that it was rung, or that the peer has closed it."""
        try:
            for _ in range(_MOST_READS):
                heard = self._socket.recv(_AT_ONCE)
                if not heard:
                    self.has_ended = True
                if len(heard) < _AT_ONCE:
                    return
        except BlockingIOError:
            pass
        except OSError:
            self.has_ended = True

    def hang_up(self) -> None:
        """Let both ends know that nothing follows; the descriptor stays until close."""
        self.has_ended = True
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Hang up; a second time does nothing."""
        self.has_ended = True
        self._socket.close()
