"""How a thread waits for ZeroMQ sockets and plain descriptors at once without missing a message."""

from __future__ import annotations

import math
import select
import time
from typing import Protocol

import zmq

# Note [ZMQ_FD is edge triggered] zmq.FD does not say "a message is there"; it says "something
# happened since you last looked", and every send, receive or read of zmq.EVENTS on the socket is a
# look: it may take the news of a message that has arrived, after which the descriptor stays silent
# although the message is readable. (Measured: after a send and one NOBLOCK receive, a message can
# be readable while poll(fd) sleeps.) Hence the rule: nobody sleeps on zmq.FD until the socket
# itself has said that nothing is there, by EAGAIN or by zmq.EVENTS without POLLIN, with no other
# call on the socket in between. Where one thread sends and another sleeps, the sender reads
# zmq.EVENTS after its send, under the lock of the socket, and if POLLIN is set it rings the
# sleeper's Doorbell: the edge that the send took is passed on by hand.


# The longest timeout of poll(2); a longer wait looks again after 24 days.
_LONGEST_MS = 2**31 - 1
# As plain ints: arithmetic with ZeroMQ's enums runs Python code.
_EVENTS, _READABLE = int(zmq.EVENTS), int(zmq.POLLIN)


class HasFileno(Protocol):
    """A Doorbell, a socket of the standard library: whatever select.poll can wait for."""

    def fileno(self) -> int:
        """Return the descriptor."""


class Waiter:
    """Waits until one of several ZeroMQ sockets or descriptors is readable.

    Thread  its owner alone, which must also be the only one that uses the sockets while wait runs
    """

    def __init__(self, *things: zmq.Socket[bytes] | HasFileno) -> None:
        self._poller = select.poll()
        self._sockets: dict[int, zmq.Socket[bytes]] = {}
        self._others: dict[int, HasFileno] = {}
        for thing in things:
            self.add(thing)

    def add(self, thing: zmq.Socket[bytes] | HasFileno) -> None:
        """Wait for thing as well from now on."""
        if isinstance(thing, zmq.Socket):
            fd = int(thing.get(zmq.FD))
            self._sockets[fd] = thing
        else:
            fd = thing.fileno()
            self._others[fd] = thing
        self._poller.register(fd, select.POLLIN)

    def remove(self, thing: zmq.Socket[bytes] | HasFileno) -> None:
        """Wait for thing no more; call it before thing is closed."""
        fd = int(thing.get(zmq.FD)) if isinstance(thing, zmq.Socket) else thing.fileno()
        self._poller.unregister(fd)
        self._sockets.pop(fd, None)
        self._others.pop(fd, None)

    def wait(self, deadline: float | None) -> list[zmq.Socket[bytes] | HasFileno]:
        """Return the readable ones, or [] once time.monotonic() has passed deadline (None: never).

        Note    See Note [ZMQ_FD is edge triggered]; a socket is returned only when it has a message
        """
        while True:
            ready: list[zmq.Socket[bytes] | HasFileno] = [
                socket for socket in self._sockets.values() if has_message(socket)
            ]
            timeout_ms = 0 if ready else poll_timeout_ms(deadline)
            # Descriptors of sockets only end the sleep: the socket itself shows whether a message
            # came.
            events = self._poller.poll(timeout_ms)
            ready += [self._others[fd] for fd, _ in events if fd in self._others]
            if ready or (timeout_ms == 0 and not events):
                return ready


def has_message(socket: zmq.Socket[bytes]) -> bool:
    """Return whether a receive would succeed now. See Note [ZMQ_FD is edge triggered]."""
    return bool(int(socket.get(_EVENTS)) & _READABLE)


def poll_timeout_ms(deadline: float | None) -> int | None:
    """Return the milliseconds until deadline, rounded up so that no wait ends early."""
    if deadline is None or math.isinf(deadline):
        return None
    remaining_ms = math.ceil((deadline - time.monotonic()) * 1000)
    return min(max(0, remaining_ms), _LONGEST_MS)
