"""Accepts callers of this machine that request rings, reads their messages, and sends answers."""

from __future__ import annotations

import logging
import select
import socket
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from os import unlink
from typing import Final

from fastdist.core.errors import MessageError
from fastdist.system.foreign_text import one_line

from ..frames import Buffer
from ..listener import Received
from . import meeting
from .end import RingEnd
from .spin_policy import SpinPolicy

# Each ring takes a file descriptor and, after its first use, some memory. Further callers use
# ZeroMQ only.
MOST_RINGS: Final = 1024
# The most messages that are read from rings before the other addresses are read.
_MOST_IN_A_ROW: Final = 32

_logger = logging.getLogger(__name__)


class RingCaller:
    """The answering end of one caller's ring, and the route of the messages from that caller.

    Thread  reply and go_on: any; all other methods: the reader of the acceptor
    """

    __slots__ = ("_lock", "end")

    def __init__(self, end: RingEnd) -> None:
        self.end = end
        # Guards the writer.
        self._lock = threading.RLock()

    def reply(self, frames: Sequence[Buffer]) -> bool:
        """Send a message without blocking; return False if the caller has hung up."""
        with self._lock:
            if self.end.bell.has_ended:
                return False
            if not self.end.write(frames):
                # The frames are copied, because the sender may change their memory afterwards.
                self.end.write_in_pieces([bytes(frame) for frame in frames])
        return True

    def go_on(self) -> bool:
        """Write more of the pending data; return whether all of it is written."""
        with self._lock:
            return self.end.go_on()

    def release(self) -> None:
        """Close the ring, and release the memory."""
        with self._lock:
            self.end.release()


class RingAcceptor:
    """Accepts connections of callers on this machine, and reads their rings.

    Thread  one at a time: the reader of the listener that owns the acceptor
    Raises  OSError if the path is taken
    """

    def __init__(self, path: str, poller: select.poll, max_frame_bytes: int) -> None:
        self._path = path
        self._poller = poller
        self._max_frame_bytes = max_frame_bytes
        self._listener: socket.socket | None = meeting.listen(path)
        self._listener_fd = self._listener.fileno()
        poller.register(self._listener_fd, select.POLLIN)
        # By file descriptor: connections with an incomplete handshake, and callers with a ring.
        self._asking: dict[int, socket.socket] = {}
        self._callers: dict[int, RingCaller] = {}
        # Callers that do not ring the bell, because this reader is awake. The reader checks their
        # rings itself, and again before it sleeps.
        self._awake: list[RingCaller] = []
        self._in_a_row = 0
        self._spin_policy = SpinPolicy()

    def take(self) -> Received | None:
        """Return the next message of a ring, or None.

        After _MOST_IN_A_ROW messages this returns None once, so that other addresses are read.
        """
        if self._in_a_row >= _MOST_IN_A_ROW:
            self._in_a_row = 0
            return None
        for caller in self._awake:
            try:
                frames = caller.end.read()
            except MessageError as error:
                text = "no longer reading the ring of a caller on this host: %s"
                _logger.warning(text, one_line(error))
                self._awake.remove(caller)
                self._forget(caller)
                return None
            if frames is not None:
                self._in_a_row += 1
                if len(self._awake) > 1:
                    # The next call looks at the rings of the other callers first.
                    self._awake.remove(caller)
                    self._awake.append(caller)
                return Received(caller, frames, None)
        self._in_a_row = 0
        return None

    def look(self) -> bool:
        """Spin for a short time, or until a message arrives; return whether one has arrived."""
        return bool(self._awake) and self._spin_policy.look(self._has_some)

    def fall_asleep(self) -> bool:
        """Request that callers ring for new messages; return False if a message has arrived."""
        while self._awake:
            caller = self._awake[-1]
            if caller.end.bell.has_ended and not caller.end.reader.has_some():
                self._forget(caller)
            elif not caller.end.reader.sleeps():
                return False
            self._awake.pop()
        return True

    def on_readable(self, ready: Sequence[tuple[int, int]]) -> None:
        """Handle the descriptors that became readable."""
        for fd, _ in ready:
            caller = self._callers.get(fd)
            if caller is not None:
                caller.end.bell.drain()
                caller.end.reader.wakes()
                if caller.end.writer.is_busy():
                    caller.go_on()
                if caller not in self._awake:
                    self._awake.append(caller)
            elif fd in self._asking:
                self._meet(fd)
            elif fd == self._listener_fd:
                self._let_in()

    def close(self, linger_s: float = 0.0) -> None:
        """Close all rings; answers that still do not fit after `linger_s` seconds are dropped."""
        self._stop_meeting()
        deadline = time.monotonic() + linger_s
        for fd, caller in list(self._callers.items()):
            line = select.poll()
            line.register(fd, select.POLLIN)
            while not caller.go_on() and not caller.end.bell.has_ended:
                left_ms = max(0.0, deadline - time.monotonic()) * 1000
                if not left_ms or not line.poll(left_ms):
                    break
                caller.end.bell.drain()
            self._forget(caller)
        for asking in self._asking.values():
            asking.close()
        self._asking.clear()
        self._awake.clear()

    def _has_some(self) -> bool:
        return any(caller.end.reader.has_some() for caller in self._awake)

    def _let_in(self) -> None:
        assert self._listener is not None
        try:
            line, _ = self._listener.accept()
        except BlockingIOError:
            return
        except OSError as error:
            # For example, no file descriptor is free. The callers that wait are refused, and use
            # another transport.
            _logger.warning("no longer accepting rings from callers on this host: %s", error)
            self._stop_meeting()
            return
        if len(self._callers) + len(self._asking) >= MOST_RINGS:
            line.close()
            return
        line.setblocking(False)
        self._asking[line.fileno()] = line
        self._poller.register(line.fileno(), select.POLLIN)

    def _meet(self, fd: int) -> None:
        line = self._asking[fd]
        try:
            end = meeting.answer(line, self._max_frame_bytes)
        except BlockingIOError:
            return
        except OSError as error:
            _logger.info("refused a ring to a process on this host: %s", error)
            self._poller.unregister(fd)
            self._asking.pop(fd).close()
            return
        del self._asking[fd]
        caller = self._callers[fd] = RingCaller(end)
        self._awake.append(caller)

    def _forget(self, caller: RingCaller) -> None:
        if self._callers.pop(caller.end.bell.fd, None) is not None:
            self._poller.unregister(caller.end.bell.fd)
        caller.release()

    def _stop_meeting(self) -> None:
        if self._listener is not None:
            self._poller.unregister(self._listener_fd)
            self._listener.close()
            self._listener = None
            with suppress(FileNotFoundError):
                unlink(self._path)
