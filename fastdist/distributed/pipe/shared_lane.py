"""The lane of asynchronous calls: many threads send on it, the progress thread alone reads it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence

from .lane import READABLE, WRITABLE, Lane
from .message import Buffer


class SharedLane:
    """A Lane with a lock, and a queue for what cannot leave yet.

    `attend` is called, from any thread and not under the lock, when the reader has to look: a
    message is there, or something waits to be sent.

    Thread  send from any; receive and may_sleep from the reader alone
    """

    def __init__(self, lane: Lane, attend: Callable[[], None]) -> None:
        self.lane = lane
        self._attend = attend
        # Guards the lane and all below it.
        self._lock = threading.Lock()
        self._unsent: deque[Sequence[Buffer]] = deque()
        self._reader_sleeps = True
        self._closed = False
        self._held = False

    def hold(self) -> None:
        """Queue all messages from now on: the connection broke, and the next begins anew."""
        with self._lock:
            self._held = True

    def resume(self, first: Sequence[Buffer]) -> None:
        """Send first, then what has queued up."""
        with self._lock:
            self._held = False
            self._unsent.appendleft(first)
        self._attend()

    def send(self, frames: Sequence[Buffer]) -> None:
        """Send a message now, or queue it until the connection takes it. Never blocks."""
        with self._lock:
            if self._closed:
                return
            if self._held or self._unsent or not self.lane.try_send(frames):
                self._unsent.append(frames)
            # A send may take the edge that would have woken the reader.
            must_attend = self._reader_sleeps and self._needs_reader()
        if must_attend:
            self._attend()

    def receive(self) -> list[Buffer] | None:
        """Return the next message, or None; then the reader may sleep on fileno()."""
        with self._lock:
            if self._closed:
                return None
            while True:
                while self._unsent and not self._held and self.lane.try_send(self._unsent[0]):
                    self._unsent.popleft()
                frames = self.lane.try_receive()
                self._reader_sleeps = frames is None and not self._needs_reader()
                if frames is not None or self._reader_sleeps:
                    return frames

    def _needs_reader(self) -> bool:
        wanted = READABLE | WRITABLE if self._unsent and not self._held else READABLE
        return bool(self.lane.events() & wanted)

    def num_unsent(self) -> int:
        """Return how many messages wait for the connection."""
        with self._lock:
            return len(self._unsent)

    def fileno(self) -> int:
        """Return the descriptor to sleep on."""
        return self.lane.fileno()

    def close(self, linger_s: float = 0.0) -> None:
        """Close the lane; what could not be sent is dropped. A second time does nothing."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._unsent.clear()
                self.lane.close(linger_s)
