"""The transports that a worker offers, and the choice of the fastest one to each peer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fastdist.core.errors import BackendNotViableError
from fastdist.distributed.sockets import UNREACHABLE_MS, Doorbell, NoSecurity, Security

from .lane import Lane
from .registry import NoTransport, Registration, Transport, names_of, transports
from .transports.zeromq import ZmqListener

# The import of each of these files registers its transport.
from .transports import absent, inproc, ipc, shm, tcp  # isort: skip

_REGISTERED = (absent, inproc, ipc, shm, tcp)


class Context:
    """This worker's transports, with which it creates listeners, and lanes to its peers.

    Raises  RpcError for unknown names; BackendNotViableError if no named transport is available
    """

    def __init__(
        self,
        transport_names: Sequence[str] | None = None,
        *,
        host: str = "127.0.0.1",
        security: Security | None = None,
        unreachable_ms: int = UNREACHABLE_MS,
    ) -> None:
        if transport_names is None:
            transport_names = names_of("FASTDIST_TRANSPORTS")
        self._security = NoSecurity() if security is None else security
        self.transports = self._allowed(transports.choose(transport_names))
        self._host = host
        # How long a connection lasts while its peer acknowledges nothing.
        self._unreachable_ms = unreachable_ms

    def _allowed(self, viable: list[Registration[Transport]]) -> list[Registration[Transport]]:
        if not self._security.tells_members_apart:
            return viable
        allowed = [entry for entry in viable if entry.member.tells_peers_apart]
        if not allowed:
            names = ", ".join(entry.name for entry in viable)
            raise BackendNotViableError(
                f"{names}: security={self._security.kind!r} lets no rank pose as another, and this "
                "transport cannot tell processes of one user apart; choose uv"
            )
        return allowed

    def listen(self, name: str) -> ZmqListener:
        """Return a listener that peers can reach through every transport of this context, and that
        this process itself can reach.
        """
        listener = ZmqListener(name, self._unreachable_ms)
        try:
            for registration in self.transports:
                registration.member.bind(listener, self._host, self._security)
            if "inproc" not in listener.addresses:
                # Calls of this process to itself use inproc, even if the user did not choose it.
                inproc.InprocTransport().bind(listener, self._host, self._security)
        except BaseException:
            listener.close()
            raise
        return listener

    def why_not_viable(self) -> dict[str, str]:
        """Return the implemented transports that this machine does not support, with the
        reasons.
        """
        reasons = {
            entry.name: entry.member.why_not_viable()
            for entry in transports.by_priority()
            if not isinstance(entry.member, NoTransport)
        }
        return {name: reason for name, reason in reasons.items() if reason is not None}

    def choose(
        self, addresses: Mapping[str, str], *, same_host: bool, same_process: bool = False
    ) -> str:
        """Return the transport with the highest priority that reaches a peer with these addresses.

        Raises  BackendNotViableError if no transport reaches the peer
        """
        if same_process and "inproc" in addresses:
            return "inproc"
        for name, _, transport in self.transports:
            address = addresses.get(name)
            if address is not None and transport.reaches(
                address, same_host=same_host, same_process=same_process
            ):
                return name
        mine = ", ".join(registration.name for registration in self.transports)
        raise BackendNotViableError(
            f"no transport reaches the peer at {dict(addresses)}: this worker offers {mine}; "
            "enable one on both that connects them, such as uv"
        )

    def connect(
        self, transport: str, address: str, closed: Doorbell, peer: str, *, watched: bool = False
    ) -> Lane:
        """Return a new lane, which ends when `closed` rings. With `watched`, the lane reports when
        its connection breaks.
        """
        for registration in transports.by_priority():
            if registration.name == transport:
                return registration.member.connect(
                    address,
                    closed,
                    self._security,
                    peer,
                    watched=watched,
                    unreachable_ms=self._unreachable_ms,
                )
        raise BackendNotViableError(f"transport {transport!r} is not registered any more")
