"""Registries of transports and channels by name, with priorities from PyTorch and fastdist."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from fastdist.core.errors import BackendNotViableError, RpcError

from .lane import Lane
from .listener import Listener


class Registered(Protocol):
    """An entry of a registry."""

    def why_not_viable(self) -> str | None:
        """Return the reason why this machine does not support the entry; None if it does."""


class Transport(Registered, Protocol):
    """A kind of connection that can create lanes to a listener."""

    # Whether a listener can identify the peer of each connection: by a key, or because only one
    # peer is possible.
    tells_peers_apart: bool

    def bind(self, listener: Listener, host: str, security: object) -> None:
        """Make `listener` reachable over this transport, and store the address in
        `listener.addresses`.
        """

    def reaches(self, address: str, *, same_host: bool, same_process: bool) -> bool:
        """Return whether this process can create a lane to a peer's address."""

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
        """Return a new lane to a peer's address. Its connection breaks if the peer acknowledges
        nothing for `unreachable_ms`.
        """


R = TypeVar("R", bound=Registered)


class Registration(NamedTuple, Generic[R]):
    """One entry of a registry. Among the entries that both workers support, the one with the
    highest priority is used.
    """

    name: str
    priority: int
    member: R


class NotViable:
    """The entry of a transport or channel that this machine, or this version, does not support."""

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def why_not_viable(self) -> str | None:
        """Return the reason."""
        return self.reason


class Registry(Generic[R]):
    """Entries of one kind, looked up by name.

    Thread  any
    """

    def __init__(self, kind: str, aliases: dict[str, str] | None = None) -> None:
        self.kind = kind
        self._aliases = aliases or {}
        # Guards _entries.
        self._entries_lock = threading.Lock()
        self._entries: dict[str, Registration[R]] = {}

    def register(self, name: str, priority: int, member: R) -> None:
        """Add an entry, or replace the entry with that name."""
        with self._entries_lock:
            self._entries[name] = Registration(name, priority, member)

    def unregister(self, name: str) -> None:
        """Remove an entry."""
        with self._entries_lock:
            self._entries.pop(name, None)

    def has(self, name: str) -> bool:
        """Return whether a name is registered, or is an alias of a registered name."""
        return self._aliases.get(name, name) in self._entries

    def by_priority(self) -> list[Registration[R]]:
        """Return all entries, highest priority first."""
        with self._entries_lock:
            return sorted(self._entries.values(), key=lambda entry: -entry.priority)

    def require_known(self, names: Sequence[str]) -> None:
        """Check the names in a user's list.

        Raises  RpcError with the first unknown name, and the known names
        """
        for name in names:
            if not self.has(name):
                known = ", ".join(entry.name for entry in self.by_priority())
                raise RpcError(f"Unknown {self.kind}: {name}; known, fastest first: {known}")

    def choose(self, names: Sequence[str] | None = None) -> list[Registration[R]]:
        """Return the supported entries, highest priority first, or in the order of a user's list.

        Raises  BackendNotViableError with all reasons if no entry is supported
        """
        if names is None:
            wanted = self.by_priority()
        else:
            self.require_known(names)
            resolved = [self._aliases.get(name, name) for name in names]
            wanted = [
                self._entries[name]._replace(priority=len(resolved) - i)
                for i, name in enumerate(resolved)
            ]
        reasons = {entry.name: entry.member.why_not_viable() for entry in wanted}
        viable = [entry for entry in wanted if reasons[entry.name] is None]
        if not viable:
            told = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
            raise BackendNotViableError(f"no {self.kind} of {', '.join(reasons)} is viable: {told}")
        return viable


def names_of(variable: str) -> list[str] | None:
    """Return the comma-separated names in an environment variable; None if there are none."""
    text = os.environ.get(variable, "")
    return [name for part in text.split(",") if (name := part.strip())] or None


class NoTransport(NotViable):
    """A transport that is not available."""

    tells_peers_apart = False

    def bind(self, listener: Listener, host: str, security: object) -> None:
        """Raise an error."""
        raise BackendNotViableError(self.reason)

    def reaches(self, address: str, *, same_host: bool, same_process: bool) -> bool:
        """Return False, because this transport reaches no peer."""
        return False

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
        """Raise an error."""
        raise BackendNotViableError(self.reason)


SHM_TRANSPORT_PRIORITY: Final = 200
IBV_TRANSPORT_PRIORITY: Final = 100
UV_TRANSPORT_PRIORITY: Final = 0
INPROC_TRANSPORT_PRIORITY: Final = 300
IPC_TRANSPORT_PRIORITY: Final = 150

transports: Registry[Transport] = Registry("transport", aliases={"tcp": "uv"})
