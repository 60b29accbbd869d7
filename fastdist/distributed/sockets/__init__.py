"""Where all ZeroMQ sockets of a process are made, secured, watched and counted."""

# The design note of this room.
#
# `context.py` holds the one zmq.Context: a second one would have no ZAP handler, and libzmq without
# a ZAP handler lets everybody in. `options.py` makes sockets with the house's options and binds and
# connects them; tcp never without a decision about security. `secret.py` and `security.py` turn the
# job's secret into CURVE keys, `certificates.py` reads keys of members that share none,
# `authenticator.py` is the thread that admits them, `connections.py` counts how often, and
# `refusals.py` who did not get in. `waiting.py` tells how to sleep on a ZeroMQ socket (Note [ZMQ_FD
# is edge triggered]), `doorbell.py` how to wake such a sleeper, `monitor.py` what became of a
# connection, `pulse.py` whether the process at its other end runs, `attempt.py` why none comes
# about, and `liveness_timeouts.py` how long that may last. `addresses.py` knows ports, the
# directories for ipc sockets, and by which address others reach this machine.
#
# A ROUTER that serves a worker:      router = make_socket(zmq.ROUTER, "router of rank 1")
#                                     bind(router, ipc_endpoint("router"))      (ipc before tcp)
#                                     bind(router, "tcp://10.0.0.7:0", security)
# A lane to another worker:           lane = make_socket(zmq.DEALER, "lane to rank 2")
#                                     connect(lane, endpoint, security, peer="rank:2")
# with                                security = CurveSecurity.for_rank(secret, job_id, 1, size)

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
    bind,
    connect,
    make_socket,
    max_frame_bytes,
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
    "runtime_directory",
    "set_wire_limits",
    "split_tcp_endpoint",
    "tcp_endpoint",
    "terminate",
    "unique_name",
    "wait_until_free",
]
