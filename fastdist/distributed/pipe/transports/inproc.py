"""The transport of a process to itself: ZeroMQ's queues inside the process."""

from __future__ import annotations

from typing import cast

from fastdist.distributed.pipe.lane import Lane
from fastdist.distributed.pipe.listener import Listener
from fastdist.distributed.pipe.registry import INPROC_TRANSPORT_PRIORITY, transports
from fastdist.distributed.sockets import Doorbell, NoSecurity, unique_name

from .zeromq import ZmqLane, ZmqListener


class InprocTransport:
    """ZeroMQ's inproc: messages need no system call, and no other process can connect."""

    tells_peers_apart = True

    def why_not_viable(self) -> str | None:
        """Return None: it is always available."""
        return None

    def bind(self, listener: Listener, host: str, security: object) -> None:
        """Listen under a name that is unique in this process."""
        endpoint = f"inproc://{unique_name('fastdist-listener')}"
        cast(ZmqListener, listener).bind("inproc", endpoint, NoSecurity())

    def reaches(self, address: str, *, same_host: bool, same_process: bool) -> bool:
        """Return whether the peer is this process."""
        return same_process

    def connect(
        self,
        address: str,
        closed: object,
        security: object,
        peer: str,
        *,
        watched: bool,
        unreachable_ms: int,
    ) -> Lane:
        """Return a new lane to this process's own listener."""
        return ZmqLane("inproc", address, cast(Doorbell, closed), NoSecurity(), peer)


transports.register("inproc", INPROC_TRANSPORT_PRIORITY, InprocTransport())
