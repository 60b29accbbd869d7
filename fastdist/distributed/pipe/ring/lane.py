"""RingLane: a caller's lane through a ring, or through ZeroMQ after the ring has ended."""

from __future__ import annotations

import select
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from fastdist.core.errors import MessageError
from fastdist.distributed.sockets import Doorbell, Pulse, poll_timeout_ms

from ..frames import Buffer
from ..lane import READABLE, WRITABLE, Lane, LaneClosed, LaneInDoubt, LaneTimeout
from . import meeting
from .spin_policy import SpinPolicy

# A sleeping thread wakes after this time, and rings the peer's bell: if this side has missed a
# bell, the peer may have missed one too.
_LOOK_UP_MS: Final = 2000


class RingLane:
    """A Lane through a ring: see Note [Rings]. If the ring ends, `instead` creates a ZeroMQ lane.

    Raises  OSError if the peer does not accept a ring
    """

    transport = "shm"
    pulse: Pulse | None = None

    def __init__(
        self, path: str, closed: Doorbell, max_frame_bytes: int, instead: Callable[[], Lane]
    ) -> None:
        self._path = path
        self._end = meeting.ask(path, max_frame_bytes)
        self._make_instead = instead
        self._instead: Lane | None = None
        self._spin_policy = SpinPolicy()
        self._closed_fd = closed.fileno()
        self._poller = select.poll()
        self._poller.register(self._end.bell.fd, select.POLLIN)
        self._poller.register(self._closed_fd, select.POLLIN)

    @property
    def takes_edges(self) -> bool:
        """Whether a ZeroMQ socket has replaced the ring."""
        return self._instead is not None

    def try_send(self, frames: Sequence[Buffer]) -> bool:
        """Send a message if that is possible without blocking, and return whether it was sent."""
        if self._instead is not None:
            return self._instead.try_send(frames)
        return not self._end.bell.has_ended and self._end.write(frames)

    def send(self, frames: Sequence[Buffer], deadline: float | None) -> None:
        """Send a message as soon as there is space for it."""
        if self._instead is not None:
            self._instead.send(frames, deadline)
        elif not self._end.write(frames):
            self._send_in_pieces(frames, deadline)

    def try_receive(self) -> list[Buffer] | None:
        """Return the frames of the next message, or None if none has arrived."""
        return self._read() if self._instead is None else self._instead.try_receive()

    def receive(self, deadline: float | None) -> list[Buffer]:
        """Return the frames of the next message, waiting for it."""
        if self._instead is not None:
            return self._instead.receive(deadline)
        reader = self._end.reader
        frames = self._read()
        if frames is None and self._instead is None and self._spin_policy.look(reader.has_some):
            frames = self._read()
        while frames is None:
            if self._has_ended():
                raise LaneInDoubt(f"the ring of the worker at {self._path} has ended")
            if reader.sleeps():
                self._sleep(deadline, reader.has_some)
                reader.wakes()
            frames = self._read()
        return frames

    def events(self) -> int:
        """Return READABLE, WRITABLE, both or neither."""
        if self._instead is not None:
            return self._instead.events()
        self._end.bell.drain()
        can_read = self._end.bell.has_ended or not self._end.reader.sleeps()
        return can_read * READABLE | (not self._end.writer.waits()) * WRITABLE

    def fileno(self) -> int:
        """Return the descriptor of the bell, or of the lane that has replaced the ring."""
        return self._end.bell.fd if self._instead is None else self._instead.fileno()

    def connection_fileno(self) -> int:
        """Return -1, because this lane has no connection events."""
        return -1

    def next_connection_event(self) -> str | None:
        """Return None, because the lane is not watched."""
        return None

    def hang_up(self) -> None:
        """End the ring; later messages go through ZeroMQ."""
        if self._instead is None:
            self._hang_up()

    def close(self, linger_s: float = 0.0) -> None:
        """Close the lane; a second call has no effect. The peer can still read sent messages."""
        self._end.release()
        if self._instead is not None:
            self._instead.close(linger_s)

    def _read(self) -> list[Buffer] | None:
        try:
            return self._end.read()
        except MessageError:
            # The rest of the ring is invalid. The state of pending calls is queried over ZeroMQ.
            self._hang_up()
            return None

    def _has_ended(self) -> bool:
        """Return whether the ring has ended; if so, replace it by a ZeroMQ lane."""
        if self._instead is None and self._end.bell.has_ended:
            self._hang_up()
        return self._instead is not None

    def _send_in_pieces(self, frames: Sequence[Buffer], deadline: float | None) -> None:
        end, is_sent = self._end, False
        try:
            is_sent = end.write_in_pieces(frames)
            while not is_sent and not end.bell.has_ended:
                self._sleep(deadline, end.writer.has_room)
                is_sent = end.go_on()
        except BaseException:
            # If a signal handler has closed the pipe and raised, no lane can be created.
            with suppress(Exception):
                self._hang_up()
            raise
        if not is_sent:
            # The ring contains half a message, which will never be completed.
            self._hang_up()
        if self._instead is not None:
            self._instead.send(frames, deadline)

    def _hang_up(self) -> None:
        self._end.release()
        self._instead = self._make_instead()

    def _sleep(self, deadline: float | None, is_over: Callable[[], bool]) -> None:
        left_ms = poll_timeout_ms(deadline)
        is_last = left_ms is not None and left_ms <= _LOOK_UP_MS
        ready = self._poller.poll(left_ms if is_last else _LOOK_UP_MS)
        closed = False
        for fd, _ in ready:
            if fd == self._closed_fd:
                closed = True
            else:
                self._end.bell.drain()
        if is_over():
            return  # a message that arrived before the lane was closed is still received
        if closed:
            raise LaneClosed(f"the ring of the worker at {self._path} was closed")
        if not ready:
            if is_last:
                raise LaneTimeout(
                    f"nothing arrived in time by the ring of the worker at {self._path}"
                )
            self._end.bell.ring()
