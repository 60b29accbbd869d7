"""The bell of a ring: a Unix socket whose bytes wake the peer, and which closes if a peer ends."""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import Final

_BYTE: Final = b"\0"
_AT_ONCE: Final = 4096
# A peer that rings faster than this process reads must not delay other peers. So `drain` reads at
# most this often; the next call reads the remaining bytes.
_MOST_READS: Final = 64


class BellSocket:
    """A connected Unix socket that only wakes its peer.

    Thread  ring: any; drain: the reader of the ring
    """

    __slots__ = ("_socket", "fd", "has_ended")

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self.fd = connected.fileno()
        # Whether the peer has closed its end. It then reads and writes nothing more, but earlier
        # messages can still be read.
        self.has_ended = False

    def ring(self) -> None:
        """Wake the thread that sleeps at the other end."""
        try:
            self._socket.send(_BYTE)
        except BlockingIOError:
            pass  # the socket's buffer is full of unread bytes, so the peer will wake
        except OSError:
            self.has_ended = True

    def drain(self) -> None:
        """Read the bytes in the socket, or detect that the peer has closed it."""
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
        """Shut down both directions; the descriptor stays open until close."""
        self.has_ended = True
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the socket; a second call has no effect."""
        self.has_ended = True
        self._socket.close()
