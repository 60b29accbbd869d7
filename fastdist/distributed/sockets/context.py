"""The one ZeroMQ context of the process, and the table of all sockets created in it."""

from __future__ import annotations

import errno
import itertools
import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

import zmq

from fastdist.core.errors import FastdistError

from .descriptors import descriptor_limit, raise_descriptor_limit

if TYPE_CHECKING:
    from .connections import Connections
    from .refusals import Refusals

# libzmq's default limit of 1023 is too low: 500 peers with nine lanes each need 4,500 sockets, and
# each monitor needs two more. Each possible socket takes 12 bytes in the context's tables.
MAX_SOCKETS = 16_384

# Guards the three names below; held while a context is created or ended, never while a socket
# blocks.
_context_lock = threading.Lock()
_context: zmq.Context[zmq.Socket[bytes]] | None = None
_open_sockets: dict[int, Socket] = {}
_forked_from: int | None = None
_numbers = itertools.count(1)


class Socket(zmq.Socket[bytes]):
    """A ZeroMQ socket of this package: counted while open, with actions to run when it closes.

    Thread  one at a time, like every ZeroMQ socket; the last thread that used it closes it
    """

    # Declared on the class, as pyzmq treats any other attribute as a socket option.
    name: str = ""
    number: int = 0
    # The method without pyzmq's wrapper, whose extra features take longer than the send itself.
    send = zmq.backend.Socket.send  # type: ignore[assignment]
    is_monitored: bool = False
    connections: Connections | None = None  # set if members are counted
    refusals: Refusals | None = None  # set if refused peers are reported
    _when_closed: list[Callable[[], None]] | None = None

    def when_closed(self, action: Callable[[], None]) -> None:
        """Run `action` once, right after this socket has closed."""
        if self._when_closed is None:
            self._when_closed = []
        self._when_closed.append(action)

    def stop_monitor(self) -> None:
        """Stop the events of the monitor; call this before the monitor's own socket closes.

        Note    libzmq's I/O thread writes events with a blocking send. Without a reader this thread
                would block forever, and so would all connections of this process
        """
        if self.is_monitored and not self.closed:
            self.is_monitored = False
            self.monitor(None, 0)

    def close(self, linger: float | None = None) -> None:
        """Close the socket; a second call does nothing."""
        self.stop_monitor()
        super().close(linger=None if linger is None else int(linger))
        with _context_lock:
            _open_sockets.pop(self.number, None)
        actions, self._when_closed = self._when_closed, None
        for action in actions or ():
            action()

    def __del__(self) -> None:
        """Do nothing: a socket that was never closed lives until the process ends.

        Note    the table refers to each open socket, so Python collects none of them earlier
        """


class _ForkedSocket(Socket):
    """A socket in the child after a fork: every operation raises an error with the reason."""

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise _fork_error()

    send = recv = send_multipart = recv_multipart = recv_into = _refuse
    bind = connect = unbind = disconnect = poll = get = set = monitor = _refuse
    getsockopt = setsockopt = _refuse


def open_socket(kind: int, name: str) -> Socket:
    """Create a plain socket in the process's context; make_socket also sets the options."""
    global _context
    with _context_lock:
        if _forked_from is not None:
            raise _fork_error()
        if _context is None:
            raise_descriptor_limit()
            _context = zmq.Context()
            _context.set(zmq.MAX_SOCKETS, MAX_SOCKETS)
        try:
            socket = Socket(_context, kind)
        except zmq.ZMQError as error:
            if error.errno != errno.EMFILE:
                raise
            raise FastdistError(
                f"no descriptor is left for a socket ({name}): this process may have "
                f"{descriptor_limit()}, and {len(_open_sockets)} sockets are open; raise the "
                "limit (ulimit -n), or check what connects to its ports"
            ) from error
        socket.number = next(_numbers)
        socket.name = name
        _open_sockets[socket.number] = socket
        return socket


def open_socket_names() -> tuple[str, ...]:
    """Return the names of this process's open sockets, oldest first; for tests of leaks."""
    with _context_lock:
        return tuple(socket.name for socket in _open_sockets.values())


def open_socket_count() -> int:
    """Return how many sockets are open in this process."""
    return len(_open_sockets)


def unique_name(stem: str) -> str:
    """Return `stem` and a number that is new in this process, for an inproc address or domain."""
    return f"{stem}-{next(_numbers)}"


def terminate() -> None:
    """End the process's context and its I/O thread; the next socket creates a new context.

    Thread  any; does not block, as every socket must be closed already
    Raises  FastdistError naming the sockets that are still open
    """
    global _context
    with _context_lock:
        if _open_sockets:
            names = ", ".join(sorted(socket.name for socket in _open_sockets.values()))
            raise FastdistError(
                f"terminate: {len(_open_sockets)} sockets are still open: {names}; "
                "close each in the thread that uses it"
            )
        context, _context = _context, None
    if context is not None:
        context.term()


def _fork_error() -> FastdistError:
    return FastdistError(
        f"ZeroMQ was in use in process {_forked_from} when it forked process {os.getpid()}, "
        "and its threads did not come along: start workers with the 'spawn' "
        "method, or fork before the first socket"
    )


def _mark_child() -> None:
    """Disable the parent's context and sockets in the child, which has no I/O thread."""
    global _context_lock, _forked_from
    # Another thread of the parent may have held the lock at the fork, and nothing here releases it.
    _context_lock = threading.Lock()
    if _context is None:
        return
    _forked_from = os.getppid()
    for socket in _open_sockets.values():
        socket.__class__ = _ForkedSocket
    _open_sockets.clear()


os.register_at_fork(after_in_child=_mark_child)
