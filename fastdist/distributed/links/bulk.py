"""Bulk connections: TCP connections between neighbouring leaders in a ring."""

# Note [Bulk connections]
# A large sum between machines does not use ZeroMQ, which copies each message three times and passes
# it from thread to thread. Each leader listens on a port for a connection of the previous leader in
# the ring. Through the hub, it sends that leader the port, a token and a new key. The hub's
# connections are authenticated and encrypted by CURVE. The previous leader connects to the port and
# sends the token. A connection with another token is closed. Note [Records] in records.py describes
# the data on these connections.

from __future__ import annotations

import hmac
import ipaddress
import os
import select
import socket
import time
from contextlib import suppress
from typing import Final

from fastdist.core.errors import AuthenticationError, CollectiveLostError
from fastdist.distributed.sockets import Doorbell

from .alarm import REPORT_S, Alarm, Waiting
from .cipher import why_not_viable

# The ways in which records are sealed. PLAIN, without a cipher, is for jobs with security 'none'.
ENCRYPTED: Final = "encrypted"
AUTHENTICATED: Final = "authenticated"
PLAIN: Final = "plain"
_VARIABLE: Final = "FASTDIST_COLLECTIVES_ENCRYPT"

TOKEN_BYTES: Final = 16
_MOST_CALLERS: Final = 16
# The time in which a peer that has connected must send its token.
_TOKEN_S: Final = 5.0


def choose_seal(security: str, host: str, *, encrypts: bool | None) -> str:
    """Return how a member with this address seals records; "" if it cannot seal them.

    Raises  AuthenticationError if encryption is switched off, but the address is public
    """
    if encrypts is None:
        text = os.environ.get(_VARIABLE, "1")
        if text not in ("0", "1"):
            raise AuthenticationError(f"{_VARIABLE} is {text!r}; expected 0 or 1")
        encrypts = text == "1"
    if security == "none":
        return PLAIN
    if not encrypts and not _is_private(host):
        raise AuthenticationError(
            f"{_VARIABLE}=0: {host!r} is not a private address, so collectives must be encrypted "
            "there; unset it, or give a private address (FASTDIST_ADDRESS)"
        )
    if why_not_viable() is not None:
        return ""
    return ENCRYPTED if encrypts else AUTHENTICATED


def _is_private(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return host == "localhost"


def listen(host: str) -> socket.socket:
    """Return a socket that listens on a free port of host."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.bind((host, 0))
        listener.listen(_MOST_CALLERS)
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    return listener


def call(host: str, port: int, token: bytes, waiting: Waiting, member: int) -> socket.socket:
    """Connect to a listening leader, send the token, and return the connection.

    Raises  CollectiveLostError if the leader cannot be reached
    """
    timeout_s = max(0.01, waiting.look([member]))
    try:
        connection = socket.create_connection((host, port), timeout_s)
    except OSError as error:
        raise CollectiveLostError(f"{waiting.name(member)} was lost: {error}") from error
    try:
        connection.sendall(token)
        _prepare(connection)
    except OSError as error:
        connection.close()
        raise CollectiveLostError(f"{waiting.name(member)} was lost: {error}") from error
    return connection


def accept(
    listener: socket.socket,
    token: bytes,
    waiting: Waiting,
    member: int,
    alarm: Alarm,
    bell: Doorbell,
) -> socket.socket:
    """Return the connection on which the right token arrives, and close all other connections."""
    callers: dict[int, tuple[socket.socket, float, bytearray]] = {}
    try:
        while True:
            alarm.require_none()
            left_s = waiting.look([member], REPORT_S)
            poller = select.poll()
            for fd in (listener.fileno(), bell.fileno(), *callers):
                poller.register(fd, select.POLLIN)
            for fd, _ in poller.poll(min(left_s, _TOKEN_S) * 1000):
                if fd == bell.fileno():
                    bell.clear()
                elif fd == listener.fileno():
                    with suppress(OSError):
                        caller, _ = listener.accept()
                        caller.setblocking(False)
                        if len(callers) == _MOST_CALLERS:
                            callers.pop(next(iter(callers)))[0].close()
                        until = time.monotonic() + _TOKEN_S
                        callers[caller.fileno()] = (caller, until, bytearray())
                elif fd in callers and _shows_token(callers[fd], token):
                    found = callers.pop(fd)[0]
                    _prepare(found)
                    return found
            for fd, (caller, until, shown) in list(callers.items()):
                if len(shown) == TOKEN_BYTES or time.monotonic() > until:
                    callers.pop(fd)
                    caller.close()
    finally:
        for caller, _, _ in callers.values():
            caller.close()


def _shows_token(caller: tuple[socket.socket, float, bytearray], token: bytes) -> bool:
    connection, _, shown = caller
    try:
        part = connection.recv(TOKEN_BYTES - len(shown))
    except OSError:
        part = b""
    # A connection that its peer has closed counts as one with a wrong token.
    shown += part or bytes(TOKEN_BYTES - len(shown))
    return len(shown) == TOKEN_BYTES and hmac.compare_digest(bytes(shown), token)


def _prepare(connection: socket.socket) -> None:
    connection.setblocking(False)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def new_token() -> bytes:
    """Return a random token, which other processes cannot guess."""
    return os.urandom(TOKEN_BYTES)
