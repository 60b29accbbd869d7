"""One attempt to connect to a TCP address, to learn why it fails: libzmq does not report that."""

from __future__ import annotations

import errno
import os
import select
import socket as standard_socket

from .options import split_tcp_endpoint
from .waiting import poll_timeout_ms


class Attempt:
    """A connection attempt, which starts immediately and sends no data; its creator closes it.

    Thread  one; never blocks. poll reports an error on fileno() when the attempt fails
    Raises  OSError if no descriptor is left, or a host name is unknown (gaierror); ValueError or
            OverflowError for an invalid address
    """

    def __init__(self, endpoint: str) -> None:
        host, port = split_tcp_endpoint(endpoint)
        family = standard_socket.AF_INET6 if ":" in host else standard_socket.AF_INET
        self._socket = standard_socket.socket(family, standard_socket.SOCK_STREAM)
        self._socket.setblocking(False)
        try:
            self._error = self._socket.connect_ex((host, port))
        except BaseException:
            self._socket.close()
            raise

    def fileno(self) -> int:
        """Return the descriptor to poll."""
        return self._socket.fileno()

    @property
    def was_refused(self) -> bool:
        """Whether the host answered that nobody listens at the port."""
        return self._found() == errno.ECONNREFUSED

    def why_not(self) -> str:
        """Return why there is no connection (yet); empty if there is one."""
        error = self._found()
        if error == errno.EINPROGRESS:
            return "no answer"
        return os.strerror(error) if error else ""

    def close(self) -> None:
        """Close the connection or the attempt."""
        self._socket.close()

    def _found(self) -> int:
        if self._error == errno.EINPROGRESS:
            # The kernel reports an error only once, so keep it.
            error = self._socket.getsockopt(standard_socket.SOL_SOCKET, standard_socket.SO_ERROR)
            self._error = error or (0 if self._is_connected() else errno.EINPROGRESS)
        return self._error

    def _is_connected(self) -> bool:
        try:
            self._socket.getpeername()
        except OSError:
            return False
        return True


def knock(endpoint: str, until: float) -> bool | None:
    """Return whether something listens at an address; None if no answer comes in time.

    Units   `until` is a time of time.monotonic()
    Raises  ValueError or OverflowError for an invalid address
    """
    poller = select.poll()
    try:
        attempt = Attempt(endpoint)
    except standard_socket.gaierror:
        # The host has no address any more, or its name cannot be resolved at the moment.
        poller.poll(poll_timeout_ms(until))
        return None
    poller.register(attempt.fileno(), select.POLLOUT)
    try:
        poller.poll(poll_timeout_ms(until))
        if attempt.was_refused:
            return False
        if not attempt.why_not():
            return True
        # If the attempt failed before the deadline, another attempt would now get the same error.
        # So wait until the deadline.
        poller.unregister(attempt.fileno())
        poller.poll(poll_timeout_ms(until))
        return None
    finally:
        attempt.close()
