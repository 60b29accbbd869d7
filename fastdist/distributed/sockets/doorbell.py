"""A bell that any thread rings and one thread polls: an eventfd, or a pipe where there is none."""

from __future__ import annotations

import os
import select
import threading

from .waiting import poll_timeout_ms


class Doorbell:
    """Something with a file descriptor that becomes readable when rung and stays so until cleared.

    A bell that is rung and never cleared is an event for good, such as "this peer is dead".

    Thread  ring from any thread, also after close; clear, wait and close from the owner
    """

    __slots__ = ("_fds", "_fds_lock")

    def __init__(self) -> None:
        # Guards _fds, so that a late ring never writes into a descriptor that somebody else got
        # after close.
        self._fds_lock = threading.RLock()
        if hasattr(os, "eventfd"):
            fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
            self._fds: tuple[int, int] | None = (fd, fd)
        else:
            self._fds = os.pipe()
            for fd in self._fds:
                os.set_blocking(fd, False)

    def fileno(self) -> int:
        """Return the descriptor to poll for reading, -1 after close."""
        return -1 if self._fds is None else self._fds[0]

    def ring(self) -> None:
        """Make the descriptor readable; rings before the next clear count as one."""
        with self._fds_lock:
            if self._fds is not None:
                try:
                    os.write(self._fds[1], b"\1\0\0\0\0\0\0\0")
                except BlockingIOError:
                    pass  # a full pipe is readable already

    def clear(self) -> None:
        """Silence the bell until the next ring. Clear first, then look at what was announced."""
        with self._fds_lock:
            if self._fds is not None:
                try:
                    # An eventfd gives its counter at once; a pipe may hold one token for each ring.
                    while len(os.read(self._fds[0], 4096)) == 4096:
                        pass
                except BlockingIOError:
                    pass  # nobody rang

    def wait(self, deadline: float | None) -> bool:
        """Wait until the bell has rung (true) or time.monotonic() passes deadline (false)."""
        poller = select.poll()
        poller.register(self.fileno(), select.POLLIN)
        while True:
            timeout_ms = poll_timeout_ms(deadline)
            if poller.poll(timeout_ms):
                return True
            if timeout_ms == 0:
                return False

    def close(self) -> None:
        """Give the descriptors back; a second time does nothing."""
        with self._fds_lock:
            if self._fds is not None:
                for fd in set(self._fds):
                    os.close(fd)
                self._fds = None
