"""The connections that members hold to one bound socket, counted, and how many one may hold."""

# Note [Who holds which connection] libzmq tells three things apart that belong together. The ZAP
# handler hears which key wants to come in, but not by which descriptor. The socket's monitor hears
# of descriptors that were accepted and that ended, but not whose they are. A message tells both,
# but only once its sender has spoken. So an admission is first counted as pending; the first
# message binds it to its descriptor, whose end gives the slot back. Where more admissions are
# pending than descriptors are silent, some ended before they spoke, and are void; whose they are is
# not known, so the oldest of whoever asks are dropped: better a slot too many for a moment than a
# peer that is locked out. Who stays silent for longer than a handshake may take is admitted and
# says nothing: when a member wants more than it may hold, such connections are hung up on.

from __future__ import annotations

import errno
import logging
import os
import socket as standard_socket
import threading
import time
from collections import Counter, deque
from collections.abc import Callable

from .descriptors import descriptor_limit
from .events import ACCEPTED, DISCONNECTED, SocketEvent

# One lane for asynchronous calls and eight for callers that block: what an honest peer opens.
MAX_CONNECTIONS = 9
# Longer than a handshake may take: whoever is silent for this time has been admitted.
SPEAKS_WITHIN_S = 10.0
# Where strangers use up the descriptors, nobody else gets one, and libzmq ends a process that
# cannot accept at its unix socket. So when so few are left, who has said nothing yet must go, the
# oldest first; those who came last are spared: a member proves itself within milliseconds.
_RESERVE = 1024
_SPARED = 8

_logger = logging.getLogger(__name__)


class Connections:
    """Who is connected to one socket. See Note [Who holds which connection].

    Thread  any; `admit` and `happened` are called by the ZAP handler's thread alone, which reads
            the monitor's events before it admits anybody
    """

    def __init__(
        self,
        max_per_member: int = MAX_CONNECTIONS,
        speaks_within_s: float = SPEAKS_WITHIN_S,
        clock: Callable[[], float] = time.monotonic,
        descriptor_limit: Callable[[], int] = descriptor_limit,
    ) -> None:
        self.max_per_member = max_per_member
        # Routes whose connection has ended, for the socket's reader to forget.
        self.ended: deque[bytes] = deque()
        self.num_refused = 0
        self._speaks_within_s = speaks_within_s
        self._clock = clock
        self._descriptor_limit = descriptor_limit
        # Guards everything below.
        self._lock = threading.Lock()
        # Descriptor -> when and at which endpoint it was accepted, until it brings a message.
        self._silent: dict[int, tuple[float, str]] = {}
        self._speaking: dict[int, tuple[str, bytes]] = {}  # descriptor -> member, route
        self._num_speaking: Counter[str] = Counter()
        self._pending: dict[str, deque[float]] = {}  # member -> when each was admitted
        self._overdue: list[tuple[int, str]] = []
        self._told: set[str] = set()

    def held_by(self, member: str) -> int:
        """Return how many connections a member holds, pending ones among them."""
        with self._lock:
            return self._held_by(member)

    def admit(self, member: str, address: str = "") -> bool:
        """Count one more connection of member; False if it holds all that it may."""
        with self._lock:
            if self._held_by(member) >= self.max_per_member:
                self._drop_void(member)
            held = self._held_by(member)
            if held < self.max_per_member:
                self._pending.setdefault(member, deque()).append(self._clock())
                return True
            self.num_refused += 1
            is_news = member not in self._told
            self._told.add(member)
        if is_news:
            _logger.warning(
                "member %s holds %d connections to this process, all that it may; one more, from "
                "%s, was refused, and will be until one of them ends",
                *(member, held, address or "somewhere"),
            )
        return False

    def happened(self, event: SocketEvent) -> None:
        """Take note of what the socket's monitor tells."""
        if not event.endpoint.startswith("tcp://"):
            return  # who comes by ipc has no key, and is not counted
        with self._lock:
            if event.kind == ACCEPTED:
                self._end(event.value)
                self._silent[event.value] = self._clock(), event.endpoint
                self._make_room(event.value)
            elif event.kind == DISCONNECTED:
                self._end(event.value)

    def spoke(self, member: str, route: bytes, descriptor: int) -> None:
        """Take note of the first message that came by a connection.

        Thread  the socket's reader
        """
        with self._lock:
            pending = self._pending.get(member)
            if pending:
                pending.popleft()
            if descriptor in self._silent or descriptor in self._speaking:
                self._end(descriptor)
                self._speaking[descriptor] = member, route
                self._num_speaking[member] += 1
            else:
                self.ended.append(route)  # it had ended before its message was read

    def take_overdue(self) -> list[tuple[int, str]]:
        """Return, once, descriptor and endpoint of connections that have been silent too long."""
        with self._lock:
            overdue, self._overdue = self._overdue, []
            return overdue

    def _held_by(self, member: str) -> int:
        return self._num_speaking[member] + len(self._pending.get(member, ()))

    def _end(self, descriptor: int) -> None:
        self._silent.pop(descriptor, None)
        member, route = self._speaking.pop(descriptor, ("", b""))
        if member:
            self._num_speaking[member] -= 1
            self.ended.append(route)

    def _make_room(self, newest: int) -> None:
        """Let those go that have been silent for longest, if descriptors become few."""
        limit = self._descriptor_limit()
        # The lowest number that is free is given, so the newest tells how many there are.
        if newest < limit - min(_RESERVE, limit // 4):
            return
        while len(self._silent) > _SPARED:
            oldest = next(iter(self._silent))
            self._overdue.append((oldest, self._silent.pop(oldest)[1]))

    def _drop_void(self, member: str) -> None:
        pending = self._pending.get(member, deque())
        # The one that asks to come in is silent, too, but not admitted yet.
        silent = max(0, len(self._silent) - 1)
        num_void = sum(len(times) for times in self._pending.values()) - silent
        before = self._clock() - self._speaks_within_s
        while pending and (num_void > 0 or pending[0] < before):
            pending.popleft()
            num_void -= 1
        self._overdue += [(fd, at) for fd, (when, at) in self._silent.items() if when < before]


def hang_up(descriptor: int, endpoint: str) -> bool:
    """End a connection that was accepted at endpoint; False if it has ended by itself.

    Note    libzmq cannot be asked to. It reads the end of the stream, as if the peer had hung up.
            The descriptor may be another's by now, so a copy of it is looked at before it is used;
            where none is left for a copy, itself: then most are strangers' anyway
    """
    try:
        looked_at = os.dup(descriptor)
    except OSError as error:
        if error.errno != errno.EMFILE:
            return False
        looked_at = descriptor
    try:
        connection = standard_socket.socket(fileno=looked_at)
    except OSError:  # no socket
        if looked_at != descriptor:
            os.close(looked_at)
        return False
    try:
        address = connection.getsockname()
        is_ours = isinstance(address, tuple) and endpoint.endswith(f":{address[1]}")
        connection.getpeername()
        if is_ours:
            connection.shutdown(standard_socket.SHUT_RDWR)
        return is_ours
    except OSError:
        return False
    finally:
        if looked_at == descriptor:
            connection.detach()
        connection.close()
