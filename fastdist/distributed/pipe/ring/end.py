"""One end of a pair of rings, and the bell that wakes the other end."""

from __future__ import annotations

import mmap
import socket
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from fastdist.core.errors import MessageError

from ..frames import Buffer
from .bell_socket import BellSocket
from .memory import RingReader, RingWriter

# The two directions: a caller's requests, and the answers to them.
REQUESTS: Final = 0
ANSWERS: Final = 1


class RingEnd:
    """Writes in one direction, reads in the other, and rings the bell if the peer sleeps.

    Thread  one writer and one reader at a time
    """

    __slots__ = ("_memory", "bell", "read", "reader", "write", "writer")

    def __init__(
        self, connected: socket.socket, memory: mmap.mmap, *, writes: int, max_frame_bytes: int
    ) -> None:
        self.bell = bell = BellSocket(connected)
        self._memory = memory
        self.writer = RingWriter(memory, writes, bell.ring)
        reads = ANSWERS + REQUESTS - writes
        self.reader = RingReader(memory, reads, max_frame_bytes, bell.ring)
        self.write, self.read = self.writer.write, self.reader.read

    def write_in_pieces(self, frames: Sequence[Buffer]) -> bool:
        """Queue a message that is written in pieces as space allows; return whether all of it is
        written already.
        """
        self.writer.begin(frames)
        return self.go_on()

    def go_on(self) -> bool:
        """Write more pieces of queued messages, and return whether all are written. If not, the
        peer will ring the bell when the ring has space.
        """
        # The peer must ring the bell only if pieces are pending: otherwise the bell would wake a
        # caller that waits for an answer.
        is_all = not self.writer.is_busy()
        while not is_all and not self.bell.has_ended:
            try:
                is_all = self.writer.go_on()
            except MessageError:
                # The peer has corrupted the ring, and will not read it any more.
                self.bell.hang_up()
                return False
            if not is_all and self.writer.waits():
                break
        return is_all

    def release(self) -> None:
        """Close the ring, and release the memory; a second call has no effect."""
        if not self._memory.closed:
            self.bell.close()
            for release in (self.writer.release, self.reader.release, self._memory.close):
                # BufferError: a signal handler has interrupted a read or a write, which still uses
                # a part of the memory.
                with suppress(BufferError):
                    release()
