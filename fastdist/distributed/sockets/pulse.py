"""Whether the process at the other end of a connection runs, asked of its libzmq once a second."""

# A connection that holds only shows that the other end's kernel is there: a process that is
# stopped, or swapped out, keeps its connections. libzmq's own heartbeats would detect that, and can
# abort us: see Note [No heartbeats of libzmq's] in options.py. So a Knock opens another connection
# to the peer's address, and libzmq's thread over there, which needs neither Python nor keys,
# answers at once with the first bytes of its greeting. That is all; we close it before either end
# has identified itself. Any reply, even that nobody listens there any more, is a sign of life: the
# connection itself reports its own end. Only silence counts. The kernel of this host ends a knock
# with an error where it finds no way to the other host: its interface is down, or nobody has that
# address in a network whose cable was pulled. That is silence as well. Otherwise a cut would never
# count: such an error occurs every 3 s.

from __future__ import annotations

import errno
import os
import select
import socket as standard_socket
import time
from collections.abc import Callable
from enum import Enum, auto
from typing import Any

BEAT_S = 1.0
# So often in a row the other end may stay silent before it counts as frozen: 2 to 3 s after it did.
MOST_MISSED_BEATS = 2
# How a connection attempt fails where the other host has not answered.
_SILENT = frozenset(
    {errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN, errno.ENETDOWN, errno.ETIMEDOUT}
)


class Beat(Enum):
    """The result of a beat."""

    FINE = auto()
    LATE = auto()  # no answer within a beat; check in other ways as well
    FROZEN = auto()


# Where to knock: what a connection leads to, by its descriptor, or the path of a unix socket.
Where = int | str


class Knock:
    """One question to the process at the far end of a connection.

    Thread  its owner's
    """

    def __init__(self, where: Where) -> None:
        self._socket: standard_socket.socket | None = None
        # Without a way to knock, nothing counts against the other end.
        self._can_be_asked = False
        # Whether no answer can come any more, because no way leads to the other host.
        self.has_failed = False
        try:
            family, address = _address_at(where)
            self._socket = standard_socket.socket(family, standard_socket.SOCK_STREAM)
        except OSError:
            return  # it has just ended, or no descriptor is left
        self._socket.setblocking(False)
        told = self._socket.connect_ex(address)
        self.has_failed = told in _SILENT
        # A unix socket gives EAGAIN where its queue of new connections is full.
        self._can_be_asked = self.has_failed or told in (0, errno.EINPROGRESS, errno.EAGAIN)
        if told not in (0, errno.EINPROGRESS):
            self.close()

    def fileno(self) -> int:
        """Return the descriptor that becomes readable with the answer; -1 if none can come."""
        return -1 if self._socket is None else self._socket.fileno()

    def is_answered(self) -> bool:
        """Return whether there is, or was, a sign of life."""
        if not self._can_be_asked or self._socket is None or self.has_failed:
            return not self._can_be_asked
        poller = select.poll()
        poller.register(self._socket, select.POLLIN)
        if not poller.poll(0):
            return False
        # The kernel forgets the error once it is read.
        error = self._socket.getsockopt(standard_socket.SOL_SOCKET, standard_socket.SO_ERROR)
        self.has_failed = error in _SILENT
        return not self.has_failed

    def close(self) -> None:
        """Hang up; a second time does nothing."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def _address_at(where: Where) -> tuple[int, Any]:
    if isinstance(where, str):
        return standard_socket.AF_UNIX, where
    with standard_socket.socket(fileno=os.dup(where)) as connection:
        return connection.family, connection.getpeername()


class Pulse:
    """The knocks at one connection after the other.

    Thread  its owner's
    """

    def __init__(self) -> None:
        self.knock: Knock | None = None
        self.descriptor = -1
        # Where to knock; None without a connection.
        self._where: Where | None = None
        # Called with a knock before it is closed, for who waits for its answer.
        self.before_close: Callable[[Knock], None] | None = None
        # How often the other end may stay silent; more on a machine with many workers a core.
        self.most_missed_beats = MOST_MISSED_BEATS
        self._late = 0
        # Whether the last knock has failed, and none has followed it.
        self._has_failed = False

    @property
    def awaits_answer(self) -> bool:
        """Whether the other end owes an answer."""
        return self.knock is not None or self._has_failed

    def connected(self, descriptor: int) -> None:
        """Take note of the descriptor of a new connection."""
        self.disconnected()
        self.descriptor = self._where = descriptor

    def reached(self, path: str) -> None:
        """Take note of a peer that listens at a unix socket, and is connected by another one."""
        self.disconnected()
        self._where = path

    def disconnected(self) -> None:
        """Stop knocking: libzmq reconnects, which shows as much."""
        self.heard()
        self.descriptor, self._where = -1, None

    def heard(self) -> None:
        """Take note of a sign of life, whatever it was."""
        self._late = 0
        self._has_failed = False
        self._close_knock()

    def look(self) -> None:
        """Look what became of the last knock; when its descriptor is readable, at the latest."""
        if self.knock is None:
            return
        if self.knock.is_answered():
            self.heard()
        elif self.knock.has_failed:
            # The next beat knocks again: the cable may be back by then.
            self._has_failed = True
            self._close_knock()

    def beat(self) -> Beat:
        """Look what became of the last knock, and knock; each BEAT_S."""
        self.look()
        is_late = self.awaits_answer
        if self.knock is None and self._where is not None:
            self._has_failed = False
            self.knock = Knock(self._where)
        if not is_late:
            return Beat.FINE
        self._late += 1
        return Beat.FROZEN if self._late >= self.most_missed_beats else Beat.LATE

    def _close_knock(self) -> None:
        if self.knock is not None:
            if self.before_close is not None:
                self.before_close(self.knock)
            self.knock.close()
            self.knock = None


def next_beat() -> float:
    """Return when to beat again, as time.monotonic() tells it."""
    return time.monotonic() + BEAT_S
