"""Finds the peer's address of a connection that libzmq has accepted, or has just closed."""

from __future__ import annotations

import os
import socket as standard_socket
import sys
from contextlib import suppress
from typing import Final

Address = tuple[str, int]

_TABLES: Final = ("/proc/self/net/tcp", "/proc/self/net/tcp6")
# TCP states of connections that were closed at this end: FIN_WAIT1, FIN_WAIT2, TIME_WAIT, CLOSING.
_CLOSED_HERE: Final = frozenset({"04", "05", "06", "0B"})
# TIME_WAIT lasts a minute; the connection's timer counts it down in ticks.
_TIME_WAIT: Final = "06"
_TIME_WAIT_TICKS: Final = 6000
_TICKS_PER_S: Final = 100


def other_end(descriptor: int, port: int) -> Address | None:
    """Return the peer's address of a connection that was accepted at `port`; None after its end.

    Note    the descriptor may belong to another file by now, so a copy of it is checked
    """
    try:
        copy = os.dup(descriptor)
    except OSError:
        return None
    try:
        connection = standard_socket.socket(fileno=copy)
    except OSError:  # not a socket
        os.close(copy)
        return None
    with connection:
        try:
            here, there = connection.getsockname(), connection.getpeername()
        except OSError:
            return None
    if not isinstance(here, tuple) or here[1] != port:
        return None
    return str(there[0]), int(there[1])


def ends_closed_here(port: int, within_s: float) -> list[Address]:
    """Return the peers of connections at `port` that this process closed recently.

    Units   `within_s`: the longest time since the close, in seconds
    Note    reads a table of the kernel with the connections of the last minute, which takes
            milliseconds; returns an empty list on systems other than Linux
    """
    found, least_ticks = [], _TIME_WAIT_TICKS - within_s * _TICKS_PER_S
    for path in _TABLES:
        with suppress(OSError), open(path, encoding="ascii") as table:
            for row in table:
                _, here, there, state, _, timer = row.split()[:6]
                if state in _CLOSED_HERE and int(here.rpartition(":")[2], 16) == port:
                    left_ticks = int(timer.rpartition(":")[2], 16)
                    if state != _TIME_WAIT or left_ticks > least_ticks:
                        found.append(_address(there))
    return found


def _address(text: str) -> Address:
    """Return an address from the kernel's text: words of 32 bits in this machine's byte order."""
    host, _, port = text.rpartition(":")
    words = [int(host[at : at + 8], 16).to_bytes(4, sys.byteorder) for at in range(0, len(host), 8)]
    packed = b"".join(words)
    family = standard_socket.AF_INET if len(packed) == 4 else standard_socket.AF_INET6
    return standard_socket.inet_ntop(family, packed), int(port, 16)
