"""Creates sockets with this package's options, binds and connects them."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping

import zmq

from fastdist.core.errors import AuthenticationError

from .context import Socket, open_socket
from .security import Security

# Note [No heartbeats of libzmq's]
# No socket may set HEARTBEAT_IVL. If a socket did, closing it could abort the process, with
# `Assertion failed: !_io_error (src/stream_engine_base.cpp:310)` in libzmq up to 4.3.5. A closing
# socket accepts no more messages, but its connections may end later. A message that arrives in
# between stops the input of its connection. If the peer closes this connection next, libzmq marks
# the connection as broken, but keeps it until its output is given up. That takes as long as the
# socket lingers, or until libzmq's thread that closes sockets handles the connection. Meanwhile the
# timer of the heartbeat writes to the connection without checking whether it is broken, and libzmq
# aborts. Any peer that sends a message and then ends, while this process closes a socket, can cause
# the abort, by ipc or tcp. Many such peers, as at the end of a group, nearly always cause it. All
# other code of libzmq that writes to a connection checks whether it is broken, unless the
# connection's input stopped for another reason. So RCVHWM is 0 (no limit), and does not stop any
# input. Other means replace the heartbeats: the kernel reports unreachable hosts (below) and ended
# processes, and a Knock shows whether a live process still runs.

HANDSHAKE_MS = 5_000
# A host that acknowledges nothing for this time, with a probe each second, is unreachable.
UNREACHABLE_MS = 2_000
# The largest keepalive count that Linux accepts.
_MOST_KEEPALIVES = 127
# If a frame is larger, the receiver closes the whole connection, and the sender is not notified. So
# senders must check the size of a frame first.
MAX_FRAME_BYTES = 64 * 1024 * 1024

_OPTIONS: dict[int, int] = {
    # Drop unsent messages when a socket closes: callers that need delivery drain first.
    zmq.LINGER: 0,
    # Queue no messages for a peer that is not connected.
    zmq.IMMEDIATE: 1,
    # High-water marks count messages; this package limits bytes instead.
    zmq.SNDHWM: 0,
    zmq.RCVHWM: 0,
    # Close half-open connections after this time.
    zmq.HANDSHAKE_IVL: HANDSHAKE_MS,
    # libzmq's default backlog of 100 is too small when all workers of a large job call one worker.
    zmq.BACKLOG: 1024,
    zmq.MAXMSGSIZE: MAX_FRAME_BYTES,
    # See Note [No heartbeats of libzmq's].
    zmq.HEARTBEAT_IVL: 0,
    zmq.TCP_KEEPALIVE: 1,
    zmq.TCP_KEEPALIVE_IDLE: 1,
    zmq.TCP_KEEPALIVE_INTVL: 1,
    zmq.TCP_KEEPALIVE_CNT: UNREACHABLE_MS // 1_000,
    zmq.TCP_MAXRT: UNREACHABLE_MS,
}


def reach_options(unreachable_ms: int) -> dict[int, int | bytes]:
    """Return socket options with which a connection without answers ends after this time."""
    count = max(1, min(_MOST_KEEPALIVES, unreachable_ms // 1_000))
    return {zmq.TCP_KEEPALIVE_CNT: count, zmq.TCP_MAXRT: unreachable_ms}


def set_wire_limits(max_frame_bytes: int, handshake_ms: int) -> None:
    """Set limits for new sockets: a larger frame, or a longer handshake, ends the connection.

    Thread  any; one worker of a process calls this, before its first socket
    """
    _OPTIONS[zmq.MAXMSGSIZE], _OPTIONS[zmq.HANDSHAKE_IVL] = max_frame_bytes, handshake_ms


def max_frame_bytes() -> int:
    """Return the largest frame that new sockets accept."""
    return _OPTIONS[zmq.MAXMSGSIZE]


def make_socket(
    kind: int,
    name: str,
    *,
    identity: bytes | None = None,
    options: Mapping[int, int | bytes] | None = None,
) -> Socket:
    """Return an unconnected socket with this package's options; `options` override them.

    Thread  any; the socket then belongs to one thread at a time
    Note    `name` describes the socket in lists of sockets that were left open
    """
    socket = open_socket(kind, name)
    try:
        for option, value in _OPTIONS.items():
            socket.set(option, value)
        if kind == zmq.ROUTER:
            # Report a message to a peer that is gone as an error (EHOSTUNREACH).
            socket.set(zmq.ROUTER_MANDATORY, 1)
        if identity is not None:
            socket.set(zmq.ROUTING_ID, identity)
        for option, setting in (options or {}).items():
            socket.set(option, setting)
    except BaseException:
        socket.close()
        raise
    return socket


def bind(socket: Socket, endpoint: str, security: Security | None = None) -> str:
    """Bind `socket`; return the endpoint for peers, with the actual port in place of `:0`.

    Thread  the socket's thread
    Raises  ValueError for tcp without security=; zmq.ZMQError if the address cannot be bound
    Note    libzmq copies the security options at each bind, so one ROUTER can serve ipc in plain
            text and tcp with CURVE, if ipc is bound first. tcp needs a Security, even if it is
            NoSecurity(), so that plain text is always a decision
    """
    if endpoint.startswith("tcp://"):
        if security is None:
            raise ValueError(
                f"bind {endpoint!r}: tcp needs security=, a CurveSecurity or NoSecurity()"
            )
        host, port = split_tcp_endpoint(endpoint)
        security.protect_binds(socket, host)
        socket.set(zmq.IPV6, int(":" in host))
        socket.bind(f"tcp://{_bracketed(host)}:{'*' if port == 0 else port}")
    else:
        _require_null_mechanism(socket, endpoint)
        socket.bind(endpoint)
        if endpoint.startswith("ipc://"):
            # libzmq also removes the file, but some time after close, on another thread.
            socket.when_closed(lambda: _remove_file(endpoint.removeprefix("ipc://")))
    return socket.get_string(zmq.LAST_ENDPOINT).rstrip("\0")


def connect(
    socket: Socket, endpoint: str, security: Security | None = None, peer: str = ""
) -> None:
    """Connect `socket` to the member `peer` (such as "rank:2") at `endpoint`.

    Thread  the socket's thread; returns without waiting for the connection
    Raises  ValueError for tcp without security=; AuthenticationError for an ipc socket of another
            user
    """
    if endpoint.startswith("tcp://"):
        if security is None:
            raise ValueError(
                f"connect {endpoint!r}: tcp needs security=, a CurveSecurity or NoSecurity()"
            )
        host, _ = split_tcp_endpoint(endpoint)
        security.protect_connects(socket, host, peer)
        socket.set(zmq.IPV6, int(":" in host))
    else:
        _require_null_mechanism(socket, endpoint)
        if endpoint.startswith("ipc://"):
            _require_own_socket_file(endpoint.removeprefix("ipc://"))
    socket.connect(endpoint)


def split_tcp_endpoint(endpoint: str) -> tuple[str, int]:
    """Return host and port of tcp://host:port; `*` gives port 0, IPv6 hosts have no brackets."""
    host, colon, port = endpoint.removeprefix("tcp://").rpartition(":")
    if not colon or not host or not (port == "*" or port.isdecimal()):
        raise ValueError(f"{endpoint!r} is not an address; expected tcp://HOST:PORT")
    return host.removeprefix("[").removesuffix("]"), 0 if port == "*" else int(port)


def tcp_endpoint(host: str, port: int) -> str:
    """Return tcp://host:port, with brackets around an IPv6 host."""
    return f"tcp://{_bracketed(host)}:{port}"


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _remove_file(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass  # libzmq has removed it, or the whole directory was removed


def _require_null_mechanism(socket: Socket, endpoint: str) -> None:
    # libzmq cannot unset a ZAP domain, so a secured socket would require keys from ipc peers as
    # well. inproc has no handshake at all.
    if endpoint.startswith("ipc://") and int(socket.get(zmq.MECHANISM)) != zmq.NULL:
        raise ValueError(f"{endpoint!r}: {socket.name} is secured already; bind ipc before tcp")


def _require_own_socket_file(path: str) -> None:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return  # not bound yet: libzmq tries again
    if found.st_uid != os.getuid() or not stat.S_ISSOCK(found.st_mode):
        raise AuthenticationError(
            f"ipc socket {path!r} is not a socket of this user "
            f"(owner {found.st_uid}, expected {os.getuid()})"
        )
