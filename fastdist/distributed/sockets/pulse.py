"""Checks once a second, through libzmq, whether the process at the other end still runs."""

# An open connection shows only that the kernel at the other end runs: a process that is stopped, or
# swapped out, keeps its connections. libzmq's own heartbeats would detect this, but can abort this
# process: see Note [No heartbeats of libzmq's] in options.py. So a Knock opens another connection
# to the peer's address. A thread of the peer's libzmq, which needs neither Python nor keys,
# immediately answers with the first bytes of its greeting. Then this end closes the connection,
# before either end has identified itself.
#
# Any reply is a sign of life, even a report that nobody listens at the address any more, because
# the connection itself reports its own end. Only silence counts against the peer. If the kernel of
# this host finds no route to the other host, the knock ends with an error. Either the interface of
# this host is down, or a cable was pulled and no host in the network has the address. Such an error
# counts as silence too. Otherwise a cut network would never be detected, as the error occurs every
# 3 s.

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
# After this many beats without an answer the other end counts as frozen: 2 to 3 s after it stopped.
MOST_MISSED_BEATS = 2
# The errors of a connection attempt to which the other host did not answer.
_SILENT = frozenset(
    {errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN, errno.ENETDOWN, errno.ETIMEDOUT}
)


class Beat(Enum):
    """The result of a beat."""

    FINE = auto()
    LATE = auto()  # no answer within a beat; use other checks as well
    FROZEN = auto()


# Where to knock: the descriptor of a connection, whose peer address is used, or the path of a Unix
# socket.
Where = int | str


class Knock:
    """One knock: a connection attempt to the process at the other end of a connection.

    Thread  the owner's thread
    """

    def __init__(self, where: Where) -> None:
        self._socket: standard_socket.socket | None = None
        # False if no attempt could be made; such a knock counts as answered.
        self._can_be_asked = False
        # Whether no answer can come any more, because there is no route to the other host.
        self.has_failed = False
        try:
            family, address = _address_at(where)
            self._socket = standard_socket.socket(family, standard_socket.SOCK_STREAM)
        except OSError:
            return  # the connection has just ended, or no descriptor is left
        self._socket.setblocking(False)
        told = self._socket.connect_ex(address)
        self.has_failed = told in _SILENT
        # A Unix socket returns EAGAIN if its queue of new connections is full.
        self._can_be_asked = self.has_failed or told in (0, errno.EINPROGRESS, errno.EAGAIN)
        if told not in (0, errno.EINPROGRESS):
            self.close()

    def fileno(self) -> int:
        """Return the descriptor that becomes readable with the answer; -1 if none can come."""
        return -1 if self._socket is None else self._socket.fileno()

    def is_answered(self) -> bool:
        """Return whether there was a sign of life."""
        if not self._can_be_asked or self._socket is None or self.has_failed:
            return not self._can_be_asked
        poller = select.poll()
        poller.register(self._socket, select.POLLIN)
        if not poller.poll(0):
            return False
        # Reading the error clears it.
        error = self._socket.getsockopt(standard_socket.SOL_SOCKET, standard_socket.SO_ERROR)
        self.has_failed = error in _SILENT
        return not self.has_failed

    def close(self) -> None:
        """Close the attempt; a second call does nothing."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def _address_at(where: Where) -> tuple[int, Any]:
    if isinstance(where, str):
        return standard_socket.AF_UNIX, where
    with standard_socket.socket(fileno=os.dup(where)) as connection:
        return connection.family, connection.getpeername()


class Pulse:
    """The knocks for a sequence of connections to one peer.

    Thread  the owner's thread
    """

    def __init__(self) -> None:
        self.knock: Knock | None = None
        self.descriptor = -1
        # Where to knock; None without a connection.
        self._where: Where | None = None
        # Called with a knock before it is closed, so that its descriptor can be unwatched.
        self.before_close: Callable[[Knock], None] | None = None
        # How many beats without an answer are allowed; more on a machine with many workers per
        # core.
        self.most_missed_beats = MOST_MISSED_BEATS
        self._late = 0
        # Whether the last knock has failed, and no other knock has followed.
        self._has_failed = False

    @property
    def awaits_answer(self) -> bool:
        """Whether an answer of the other end is due."""
        return self.knock is not None or self._has_failed

    def connected(self, descriptor: int) -> None:
        """Set the descriptor of a new connection."""
        self.disconnected()
        self.descriptor = self._where = descriptor

    def reached(self, path: str) -> None:
        """Set the Unix socket at which the peer listens, for a connection without a descriptor."""
        self.disconnected()
        self._where = path

    def disconnected(self) -> None:
        """Stop knocking: libzmq reconnects, which has the same effect as a knock."""
        self.heard()
        self.descriptor, self._where = -1, None

    def heard(self) -> None:
        """Record a sign of life of any kind."""
        self._late = 0
        self._has_failed = False
        self._close_knock()

    def look(self) -> None:
        """Check the last knock; call this at the latest when its descriptor is readable."""
        if self.knock is None:
            return
        if self.knock.is_answered():
            self.heard()
        elif self.knock.has_failed:
            # The next beat knocks again, as the network may work again by then.
            self._has_failed = True
            self._close_knock()

    def beat(self) -> Beat:
        """Check the last knock, and knock again; call this every BEAT_S."""
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
    """Return the time of the next beat, in terms of time.monotonic()."""
    return time.monotonic() + BEAT_S
