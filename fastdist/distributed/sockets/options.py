"""How a socket of this house is set up, bound and connected."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping

import zmq

from fastdist.core.errors import AuthenticationError

from .context import Socket, open_socket
from .security import Security

# Note [No heartbeats of libzmq's] No socket of ours may have HEARTBEAT_IVL, or closing one can
# abort the process: `Assertion failed: !_io_error (src/stream_engine_base.cpp:310)`, libzmq 4.3.5
# and before. A socket that closes accepts no more messages while its connections still end. A
# message that arrives then stops the input of its connection; if the peer closes it next, the
# connection is marked broken, yet kept until its output is given up, which is as long as the socket
# lingers, or until the thread that closes sockets gets to it. The heartbeat's timer runs on
# meanwhile, and writes to a connection without checking whether it is broken: abort. Any peer that
# sends and then ends while we close triggers it, by ipc or tcp; many of them at once, as where a
# group ends, nearly always. All other writers do check, as long as no connection's input stops for
# another reason, so RCVHWM is 0. Other means do the work of heartbeats: the kernel reports hosts
# and cables (below) and processes that ended, and a Knock shows whether a live process runs.

HANDSHAKE_MS = 5_000
# A host that acknowledges nothing for this time, asked each second, is unreachable.
UNREACHABLE_MS = 2_000
# The largest count that Linux accepts.
_MOST_KEEPALIVES = 127
# The receiver drops the whole connection at a larger frame and nobody tells the sender, who must
# therefore check first.
MAX_FRAME_BYTES = 64 * 1024 * 1024

_OPTIONS: dict[int, int] = {
    # Unsent messages are dropped when a socket closes: callers that need delivery drain first.
    zmq.LINGER: 0,
    # No message is queued for a peer that is not there.
    zmq.IMMEDIATE: 1,
    # High-water marks count messages; we count bytes.
    zmq.SNDHWM: 0,
    zmq.RCVHWM: 0,
    # Half-open connections are closed after this time.
    zmq.HANDSHAKE_IVL: HANDSHAKE_MS,
    # libzmq's default of 100 is too few where all workers of a large job first call one worker.
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
    """Return the options of a socket whose connections outlast so long without an answer."""
    count = max(1, min(_MOST_KEEPALIVES, unreachable_ms // 1_000))
    return {zmq.TCP_KEEPALIVE_CNT: count, zmq.TCP_MAXRT: unreachable_ms}


def set_wire_limits(max_frame_bytes: int, handshake_ms: int) -> None:
    """Let sockets made from now on end a connection that brings a larger frame, or greets longer.

    Thread  any; one worker of a process says so, before its first socket
    """
    _OPTIONS[zmq.MAXMSGSIZE], _OPTIONS[zmq.HANDSHAKE_IVL] = max_frame_bytes, handshake_ms


def max_frame_bytes() -> int:
    """Return the largest frame that sockets made now would take."""
    return _OPTIONS[zmq.MAXMSGSIZE]


def make_socket(
    kind: int,
    name: str,
    *,
    identity: bytes | None = None,
    options: Mapping[int, int | bytes] | None = None,
) -> Socket:
    """Return an unconnected socket with the house's options; `options` are set last and win.

    Thread  any; the socket then belongs to one thread at a time
    Note    `name` says what the socket is for, in lists of sockets that were left open
    """
    socket = open_socket(kind, name)
    try:
        for option, value in _OPTIONS.items():
            socket.set(option, value)
        if kind == zmq.ROUTER:
            # A message to a peer that is gone is an error (EHOSTUNREACH), not silence.
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
    """Bind socket and return the endpoint that peers connect to, with the port that `:0` got.

    Thread  the socket's
    Raises  ValueError for tcp without security=; zmq.ZMQError where the address cannot be had
    Note    libzmq copies the security options at each bind, so one ROUTER serves ipc in the clear
            and tcp with CURVE, if ipc is bound first; tcp must come with a Security, if only
            NoSecurity(), so that plaintext is always a decision
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
            # libzmq removes the file too, but some time after close, on another thread.
            socket.when_closed(lambda: _remove_file(endpoint.removeprefix("ipc://")))
    return socket.get_string(zmq.LAST_ENDPOINT).rstrip("\0")


def connect(
    socket: Socket, endpoint: str, security: Security | None = None, peer: str = ""
) -> None:
    """Connect socket to the member `peer` (such as "rank:2") at endpoint.

    Thread  the socket's; returns at once, the connection is made behind it
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
    """Return host and port of tcp://host:port; `*` is port 0, IPv6 loses its brackets."""
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
        pass  # libzmq was faster, or the whole directory has gone


def _require_null_mechanism(socket: Socket, endpoint: str) -> None:
    # libzmq cannot unset a ZAP domain, so a socket that was secured once would ask ipc peers for
    # keys as well. inproc has no handshake at all.
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
