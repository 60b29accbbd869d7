"""Waits for ZeroMQ sockets and plain descriptors together, without missing a message."""

from __future__ import annotations

import math
import select
import time
from typing import Protocol

import zmq

# Note [ZMQ_FD is edge triggered]
# zmq.FD does not mean "a message is there". It means "something happened since the last check", and
# every send, receive or read of zmq.EVENTS on the socket is a check. A check may consume the signal
# of a message that has arrived. The descriptor then does not become readable, although the socket
# has a message. (Measured: after a send and one NOBLOCK receive, a socket can have a message while
# poll(fd) sleeps.) Hence the rule: a thread sleeps on zmq.FD only after the socket itself has
# reported, by EAGAIN or by zmq.EVENTS without POLLIN, that it has no message. Between this report
# and the sleep there must be no other call on the socket. If one thread sends while another sleeps,
# the sender reads zmq.EVENTS after its send, under the lock of the socket. If POLLIN is set, the
# sender rings the Doorbell of the sleeping thread, because the send consumed the signal for that
# thread.


# The longest timeout of poll(2); a longer wait polls again after 24 days.
_LONGEST_MS = 2**31 - 1
# As plain ints: arithmetic with ZeroMQ's enums runs Python code.
_EVENTS, _READABLE = int(zmq.EVENTS), int(zmq.POLLIN)


class HasFileno(Protocol):
    """Any object for select.poll, such as a Doorbell or a socket of the standard library."""

    def fileno(self) -> int:
        """Return the descriptor."""


class Waiter:
    """Waits until one of several ZeroMQ sockets or descriptors is readable.

    Thread  its owner only; no other thread may use the sockets while `wait` runs
    """

    def __init__(self, *things: zmq.Socket[bytes] | HasFileno) -> None:
        self._poller = select.poll()
        self._sockets: dict[int, zmq.Socket[bytes]] = {}
        self._others: dict[int, HasFileno] = {}
        for thing in things:
            self.add(thing)

    def add(self, thing: zmq.Socket[bytes] | HasFileno) -> None:
        """Add an object to wait for."""
        if isinstance(thing, zmq.Socket):
            fd = int(thing.get(zmq.FD))
            self._sockets[fd] = thing
        else:
            fd = thing.fileno()
            self._others[fd] = thing
        self._poller.register(fd, select.POLLIN)

    def remove(self, thing: zmq.Socket[bytes] | HasFileno) -> None:
        """Remove an object; call it before the object is closed."""
        fd = int(thing.get(zmq.FD)) if isinstance(thing, zmq.Socket) else thing.fileno()
        self._poller.unregister(fd)
        self._sockets.pop(fd, None)
        self._others.pop(fd, None)

    def wait(self, deadline: float | None) -> list[zmq.Socket[bytes] | HasFileno]:
        """Return the readable objects; [] once time.monotonic() passes `deadline` (None: never).

        Note    See Note [ZMQ_FD is edge triggered]; a socket is returned only if it has a message
        """
        while True:
            ready: list[zmq.Socket[bytes] | HasFileno] = [
                socket for socket in self._sockets.values() if has_message(socket)
            ]
            timeout_ms = 0 if ready else poll_timeout_ms(deadline)
            # The descriptor of a socket only ends the sleep; the socket itself must be queried for
            # a message.
            events = self._poller.poll(timeout_ms)
            ready += [self._others[fd] for fd, _ in events if fd in self._others]
            if ready or (timeout_ms == 0 and not events):
                return ready


def has_message(socket: zmq.Socket[bytes]) -> bool:
    """Return whether a receive would succeed now. See Note [ZMQ_FD is edge triggered]."""
    return bool(int(socket.get(_EVENTS)) & _READABLE)


def poll_timeout_ms(deadline: float | None) -> int | None:
    """Return the milliseconds until `deadline`, rounded up so that no wait ends early."""
    if deadline is None or math.isinf(deadline):
        return None
    remaining_ms = math.ceil((deadline - time.monotonic()) * 1000)
    return min(max(0, remaining_ms), _LONGEST_MS)
