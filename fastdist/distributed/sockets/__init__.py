"""All ZeroMQ sockets of a process: this package creates, secures, monitors and counts them.

context.py            the one zmq.Context; a second context would have no ZAP handler, and libzmq
                      admits every peer to a context without a ZAP handler
options.py            creates sockets with this package's options, binds and connects them; TCP
                      needs an explicit choice of security
secret.py             the job's secret
security.py           derives CURVE keys from the secret, and secures sockets with them
published_secret.py   a secret that one process publishes to other processes of its user
certificates.py       keys of members that do not share a secret
authenticator.py      the thread that decides which peers are admitted (ZAP)
connections.py        counts the connections of each member
refusals.py           refused peers, for the log
waiting.py            waits until a ZeroMQ socket is readable (Note [ZMQ_FD is edge triggered])
doorbell.py           wakes a thread that waits
monitor.py            reads the events of a connection: made, broken, refused
events.py             the names of these events
other_end.py          finds the process of this machine at the other end of a connection
descriptors.py        the limit on open descriptors
pulse.py              checks whether the process at the other end still runs
attempt.py            finds out why a connection cannot be made
liveness_timeouts.py  how long a peer may be silent
addresses.py          ports, directories for ipc sockets, and the address of this machine

A ROUTER that serves a worker:

    router = make_socket(zmq.ROUTER, "router of rank 1")
    bind(router, ipc_endpoint("router"))                 # ipc before tcp
    bind(router, "tcp://10.0.0.7:0", security)

A lane to another worker:

    security = CurveSecurity.for_rank(secret, job_id, 1, size)
    lane = make_socket(zmq.DEALER, "lane to rank 2")
    connect(lane, endpoint, security, peer="rank:2")
"""

from __future__ import annotations

from .addresses import (
    free_port,
    ipc_directory,
    ipc_endpoint,
    local_address_towards,
    runtime_directory,
    wait_until_free,
)
from .attempt import Attempt, knock
from .certificates import CertificateFolder
from .connections import MAX_CONNECTIONS, Connections, hang_up
from .context import Socket, open_socket_count, open_socket_names, terminate, unique_name
from .descriptors import descriptor_limit, raise_descriptor_limit
from .doorbell import Doorbell
from .monitor import SocketEvent, SocketMonitor
from .options import (
    MAX_FRAME_BYTES,
    UNREACHABLE_MS,
    bind,
    connect,
    make_socket,
    max_frame_bytes,
    reach_options,
    set_wire_limits,
    split_tcp_endpoint,
    tcp_endpoint,
)
from .pulse import Beat, Pulse, next_beat
from .refusals import Refusals, Tell
from .secret import JobSecret
from .security import (
    CertificateSecurity,
    CurveSecurity,
    NoSecurity,
    Roster,
    Security,
    authenticated_rank,
    is_loopback,
)
from .waiting import HasFileno, Waiter, has_message, poll_timeout_ms

__all__ = [
    "MAX_CONNECTIONS",
    "MAX_FRAME_BYTES",
    "UNREACHABLE_MS",
    "Attempt",
    "Beat",
    "CertificateFolder",
    "CertificateSecurity",
    "Connections",
    "CurveSecurity",
    "Doorbell",
    "HasFileno",
    "JobSecret",
    "NoSecurity",
    "Pulse",
    "Refusals",
    "Roster",
    "Security",
    "Socket",
    "SocketEvent",
    "SocketMonitor",
    "Tell",
    "Waiter",
    "authenticated_rank",
    "bind",
    "connect",
    "descriptor_limit",
    "free_port",
    "hang_up",
    "has_message",
    "ipc_directory",
    "ipc_endpoint",
    "is_loopback",
    "knock",
    "local_address_towards",
    "make_socket",
    "max_frame_bytes",
    "next_beat",
    "open_socket_count",
    "open_socket_names",
    "poll_timeout_ms",
    "raise_descriptor_limit",
    "reach_options",
    "runtime_directory",
    "set_wire_limits",
    "split_tcp_endpoint",
    "tcp_endpoint",
    "terminate",
    "unique_name",
    "wait_until_free",
]
