"""The transport to all peers, named uv as in PyTorch: ZeroMQ over TCP, with CURVE."""

from __future__ import annotations

from typing import cast

from fastdist.distributed.pipe.lane import Lane
from fastdist.distributed.pipe.listener import Listener
from fastdist.distributed.pipe.registry import UV_TRANSPORT_PRIORITY, transports
from fastdist.distributed.sockets import Doorbell, Security, tcp_endpoint

from .zeromq import ZmqLane, ZmqListener


class TcpTransport:
    """A TCP port that accepts connections of the job's members."""

    tells_peers_apart = True

    def why_not_viable(self) -> str | None:
        """Return None: TCP is always available."""
        return None

    def bind(self, listener: Listener, host: str, security: object) -> None:
        """Listen on a free port of host."""
        cast(ZmqListener, listener).bind("uv", tcp_endpoint(host, 0), cast(Security, security))

    def reaches(self, address: str, *, same_host: bool, same_process: bool) -> bool:
        """Return True, because it is unknown before a connection whether packets arrive."""
        return True

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
        """Return a new lane to a TCP port."""
        return ZmqLane(
            "uv",
            address,
            cast(Doorbell, closed),
            cast(Security, security),
            peer,
            watched=watched,
            unreachable_ms=unreachable_ms,
        )


transports.register("uv", UV_TRANSPORT_PRIORITY, TcpTransport())
