"""One of the two ends of a pair of rings, and the bell of the other."""

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

# The ways through the memory: a caller's requests, and the answers to them.
REQUESTS: Final = 0
ANSWERS: Final = 1


class RingEnd:
    """Writes one way, reads the other, and rings where somebody sleeps.

    Thread  writing: one at a time; reading: one at a time
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
        """Take a message in that goes on as there is room; return whether it has gone."""
        self.writer.begin(frames)
        return self.go_on()

    def go_on(self) -> bool:
        """Send more pieces of a message; if some are left, the peer rings once it has room."""
        # With nothing left nobody is rung: a caller that waits for its answer would wake for it.
        is_all = not self.writer.is_busy()
        while not is_all and not self.bell.has_ended:
            try:
                is_all = self.writer.go_on()
            except MessageError:
                # The other has made rubbish of the ring; it takes nothing more in.
                self.bell.hang_up()
                return False
            if not is_all and self.writer.waits():
                break
        return is_all

    def release(self) -> None:
        """Close the ring, and release the memory; a second time does nothing."""
        if not self._memory.closed:
            self.bell.close()
            for release in (self.writer.release, self.reader.release, self._memory.close):
                # A part is in use where the handler of a signal has interrupted a read or a write.
                with suppress(BufferError):
                    release()
