"""SharedLane: the lane of asynchronous calls, on which many threads send and one receives."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final

from fastdist.core.errors import MessageError

from .batch import MAX_MESSAGES, join, split, take_batch
from .frames import Buffer
from .lane import READABLE, WRITABLE, Lane

# Messages that follow each other within this interval form a burst. The first SENT_AT_ONCE messages
# of a burst are sent directly. The reader sends the later messages, many of them joined into one,
# while their sender continues to compute.
BURST_GAP_S: Final = 0.0002
SENT_AT_ONCE: Final = 4


class SharedLane:
    """A Lane with a lock, and a queue for messages that cannot be sent yet, or should be joined.

    `attend` is called if the reader has work: to receive a message, or to send queued messages. Any
    thread may call it, without the lock.

    Thread  send: any; receive: only the reader
    """

    def __init__(self, lane: Lane, attend: Callable[[], None]) -> None:
        self.lane = lane
        self._attend = attend
        # Guards the lane and the fields below.
        self._lock = threading.RLock()
        self._unsent: deque[Sequence[Buffer]] = deque()
        self._came: deque[list[Buffer]] = deque()
        self._reader_sleeps = True
        self._reader_called = False
        self._closed = False
        self._held = False
        self._last_send = 0.0
        self._in_burst = 0

    def hold(self) -> None:
        """Queue all messages from now on, because the connection broke, and the next connection
        needs a greeting.
        """
        with self._lock:
            self._held = True

    def resume(self, first: Sequence[Buffer]) -> None:
        """Send `first`, and then the queued messages."""
        with self._lock:
            self._held = False
            self._unsent.appendleft(first)
        self._attend()

    def send(self, frames: Sequence[Buffer]) -> None:
        """Send a message now, or queue it for the reader, without blocking."""
        now = time.monotonic()
        with self._lock:
            if self._closed:
                return
            self._in_burst = self._in_burst + 1 if now - self._last_send < BURST_GAP_S else 0
            self._last_send = now
            if self._held or self._unsent or self._in_burst >= SENT_AT_ONCE:
                self._unsent.append(frames)
                must_attend = not self._reader_called and not self._held
            elif not self.lane.try_send(frames):
                self._unsent.append(frames)
                must_attend = self._reader_sleeps and self._needs_reader()
            else:
                # A send may consume the event that would have woken the reader.
                must_attend = self._reader_sleeps and self._needs_reader()
            self._reader_called = self._reader_called or must_attend
        if must_attend:
            self._attend()

    def receive(self) -> list[Buffer] | None:
        """Return the next message; None means that the reader may sleep on fileno()."""
        if self._came:
            return self._came.popleft()
        with self._lock:
            if self._closed:
                return None
            self._reader_called = False
            self._reader_sleeps = False
            while True:
                if self._unsent:
                    self._flush()
                # Query the lane's events first: a receive that finds no message costs ten times as
                # much as this query.
                events = self.lane.events()
                if events & READABLE:
                    frames = self.lane.try_receive()
                    if frames is not None:
                        break
                elif not (events & WRITABLE and self._unsent and not self._held):
                    self._reader_sleeps = True
                    return None
        try:
            self._came.extend(split(frames))
        except MessageError:
            self._came.append(frames)  # the code that decodes these frames reports the error
        return self._came.popleft()

    def num_unsent(self) -> int:
        """Return the number of messages in the queue."""
        with self._lock:
            return len(self._unsent)

    def fileno(self) -> int:
        """Return the descriptor on which the reader sleeps."""
        return self.lane.fileno()

    def close(self, linger_s: float = 0.0) -> None:
        """Send what is possible without blocking, and close the lane. A second call has no
        effect.
        """
        with self._lock:
            if not self._closed:
                self._flush()
                self._closed = True
                self._unsent.clear()
                self.lane.close(linger_s)

    def _flush(self) -> None:
        unsent = self._unsent
        while unsent and not self._held:
            count = take_batch(list(islice(unsent, MAX_MESSAGES)))
            if not self.lane.try_send(join(list(islice(unsent, count)))):
                return
            for _ in range(count):
                unsent.popleft()

    def _needs_reader(self) -> bool:
        if not self.lane.takes_edges:
            return False
        wanted = READABLE | WRITABLE if self._unsent and not self._held else READABLE
        return bool(self.lane.events() & wanted)
