"""Whether the process at the other end of a connection runs, asked of its libzmq once a second."""

# A connection that holds says only that the other end's kernel is there: a process that is stopped,
# or swapped out, keeps its connections. libzmq's own heartbeats would tell, and can abort us: see
# Note [No heartbeats of libzmq's] in options.py. So we knock: at the address that the connection
# leads to we open another one, and libzmq's thread over there, which needs neither Python nor keys,
# answers at once with the first bytes of its greeting. That is all; we hang up before either end
# has said who it is. Whatever comes back, be it that nobody listens there any more, is a sign of
# life: what became of the connection itself is told by the connection. Only silence counts.

from __future__ import annotations

import errno
import os
import select
import socket as standard_socket
import time
from collections.abc import Callable
from enum import Enum, auto

BEAT_S = 1.0
# So often in a row the other end may stay silent before it counts as frozen: 2 to 3 s after it did.
MOST_MISSED_BEATS = 2


class Beat(Enum):
    """What a beat has shown."""

    FINE = auto()
    LATE = auto()  # no answer within a beat; ask in other ways as well
    FROZEN = auto()


class Knock:
    """One question to the far end of the connection with this descriptor.

    Thread  its owner's
    """

    def __init__(self, descriptor: int) -> None:
        self._socket: standard_socket.socket | None = None
        # Where nothing can be asked, nothing is known against the other end.
        self._can_be_asked = False
        try:
            with standard_socket.socket(fileno=os.dup(descriptor)) as connection:
                family, address = connection.family, connection.getpeername()
            self._socket = standard_socket.socket(family, standard_socket.SOCK_STREAM)
        except OSError:
            return  # it has just ended, or no descriptor is left
        self._socket.setblocking(False)
        told = self._socket.connect_ex(address)
        # A unix socket says EAGAIN where the queue of those who wait at the door is full.
        self._can_be_asked = told in (0, errno.EINPROGRESS, errno.EAGAIN)
        if told not in (0, errno.EINPROGRESS):
            self.close()

    def fileno(self) -> int:
        """Return the descriptor that becomes readable with the answer; -1 if none can come."""
        return -1 if self._socket is None else self._socket.fileno()

    def is_answered(self) -> bool:
        """Return whether there is, or was, a sign of life."""
        if not self._can_be_asked or self._socket is None:
            return not self._can_be_asked
        poller = select.poll()
        poller.register(self._socket, select.POLLIN)
        return bool(poller.poll(0))

    def close(self) -> None:
        """Hang up; a second time does nothing."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


class Pulse:
    """The knocks at one connection after the other.

    Thread  its owner's
    """

    def __init__(self) -> None:
        self.knock: Knock | None = None
        self.descriptor = -1
        # Called with a knock before it is closed, for who waits for its answer.
        self.before_close: Callable[[Knock], None] | None = None
        # How often the other end may stay silent; more on a machine with many workers a core.
        self.most_missed_beats = MOST_MISSED_BEATS
        self._late = 0

    def connected(self, descriptor: int) -> None:
        """Take note of the descriptor of a new connection."""
        self.disconnected()
        self.descriptor = descriptor

    def disconnected(self) -> None:
        """Knock no more: libzmq connects anew, which tells as much."""
        self.heard()
        self.descriptor = -1

    def heard(self) -> None:
        """Take note of a sign of life, whatever it was."""
        self._late = 0
        if self.knock is not None:
            if self.before_close is not None:
                self.before_close(self.knock)
            self.knock.close()
            self.knock = None

    def beat(self) -> Beat:
        """Look what became of the last knock, and knock; each BEAT_S."""
        if self.knock is not None and self.knock.is_answered():
            self.heard()
        if self.knock is not None:
            self._late += 1
            return Beat.FROZEN if self._late >= self.most_missed_beats else Beat.LATE
        if self.descriptor >= 0:
            self.knock = Knock(self.descriptor)
        return Beat.FINE


def next_beat() -> float:
    """Return when to beat again, as time.monotonic() tells it."""
    return time.monotonic() + BEAT_S
