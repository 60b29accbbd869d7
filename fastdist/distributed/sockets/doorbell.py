"""A bell that any thread rings and one thread polls: an eventfd, or a pipe on other systems."""

from __future__ import annotations

import os
import select
import threading

from .waiting import poll_timeout_ms


class Doorbell:
    """An object whose descriptor becomes readable with a ring, and stays readable until a clear.

    A bell that is never cleared is a permanent event, such as "this peer is dead".

    Thread  ring from any thread, also after close; clear, wait and close from the owner
    """

    __slots__ = ("_fds", "_fds_lock")

    def __init__(self) -> None:
        # Guards _fds, so that a late ring never writes into a descriptor that was reused after
        # close.
        self._fds_lock = threading.RLock()
        if hasattr(os, "eventfd"):
            fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
            self._fds: tuple[int, int] | None = (fd, fd)
        else:
            self._fds = os.pipe()
            for fd in self._fds:
                os.set_blocking(fd, False)

    def fileno(self) -> int:
        """Return the descriptor to poll for reading; -1 after close."""
        return -1 if self._fds is None else self._fds[0]

    def ring(self) -> None:
        """Make the descriptor readable; several rings before a clear count as one."""
        with self._fds_lock:
            if self._fds is not None:
                try:
                    os.write(self._fds[1], b"\1\0\0\0\0\0\0\0")
                except BlockingIOError:
                    pass  # a full pipe is already readable

    def clear(self) -> None:
        """Reset the bell until the next ring. Clear first, then check for the announced event."""
        with self._fds_lock:
            if self._fds is not None:
                try:
                    # One read resets an eventfd's counter; a pipe may hold a byte for each ring.
                    while len(os.read(self._fds[0], 4096)) == 4096:
                        pass
                except BlockingIOError:
                    pass  # the bell was not rung

    def wait(self, deadline: float | None) -> bool:
        """Wait until the bell has rung (True) or time.monotonic() passes `deadline` (False)."""
        poller = select.poll()
        poller.register(self.fileno(), select.POLLIN)
        while True:
            timeout_ms = poll_timeout_ms(deadline)
            if poller.poll(timeout_ms):
                return True
            if timeout_ms == 0:
                return False

    def close(self) -> None:
        """Close the descriptors; a second call does nothing."""
        with self._fds_lock:
            if self._fds is not None:
                for fd in set(self._fds):
                    os.close(fd)
                self._fds = None
