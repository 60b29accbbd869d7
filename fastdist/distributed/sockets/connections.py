"""Counts the connections of members to one bound socket, and limits them for each member."""

# Note [Who holds which connection]
# libzmq reports the data of a connection in three places. The ZAP handler gets the key of a new
# peer, but not the connection's descriptor. The socket's monitor reports the descriptors of
# accepted and ended connections, but not the members at their other ends. A message has the member
# and the descriptor, but it arrives only when the peer sends. So an admission first counts as
# pending. The first message of the connection shows to which descriptor the admission belongs. When
# the monitor reports the end of that descriptor, the member may open another connection.
#
# If there are more pending admissions than silent descriptors, some connections ended before a
# message arrived. It is not known to which members these connections belonged. So the oldest
# pending admissions of the member that requests a connection are dropped. One connection above the
# limit for a moment is better than a peer that is locked out.
#
# A peer that is silent for longer than a handshake may take was admitted, but has not sent a
# message. When a member wants more connections than its limit, such silent connections are closed.
# If the member keeps trying for longer than the detection of a cut connection takes, its
# connections that brought no message in that time are closed too. They belong to an earlier, frozen
# incarnation. If they belong to a live peer, the peer connects again. A member can cause such an
# end only for its own connections.

from __future__ import annotations

import errno
import logging
import math
import os
import socket as standard_socket
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable

from .descriptors import descriptor_limit
from .events import ACCEPTED, DISCONNECTED, SocketEvent

# A correct peer opens one lane for asynchronous calls, and eight for callers that block.
MAX_CONNECTIONS = 9
# A peer that is silent for this time has been admitted, because no handshake takes so long.
SPEAKS_WITHIN_S = 10.0
# Longer than the detection of a cut connection takes: see UNREACHABLE_MS in options.py.
_YIELDS_AFTER_S = 3.0
# If strangers use up the descriptors, members get none, and libzmq aborts a process that cannot
# accept a connection at its Unix socket. So when fewer than _RESERVE descriptors are left, silent
# connections are closed, except for the newest _SPARED connections: a member identifies itself
# within milliseconds.
_RESERVE = 1024
_SPARED = 8

# The bytes of Linux's struct tcp_info that hold the milliseconds since the last received data.
_LAST_DATA = slice(52, 56)

_logger = logging.getLogger(__name__)


class Connections:
    """The connections of one socket. See Note [Who holds which connection].

    Thread  any; only the ZAP handler's thread calls `admit` and `happened`, and this thread reads
            the monitor's events before it admits a peer
    """

    def __init__(
        self,
        max_per_member: int = MAX_CONNECTIONS,
        speaks_within_s: float = SPEAKS_WITHIN_S,
        clock: Callable[[], float] = time.monotonic,
        descriptor_limit: Callable[[], int] = descriptor_limit,
        silence_of: Callable[[int], float] | None = None,
    ) -> None:
        self.max_per_member = max_per_member
        # Routes whose connection has ended; the socket's reader removes them.
        self.ended: deque[bytes] = deque()
        self.num_refused = 0
        self._speaks_within_s = speaks_within_s
        self._clock = clock
        self._descriptor_limit = descriptor_limit
        self._silence_of = silence_of or silence_s
        # Guards all attributes below.
        self._lock = threading.RLock()
        # Descriptor -> the time and the endpoint of the accept, until the first message arrives.
        self._silent: dict[int, tuple[float, str]] = {}
        # Descriptor -> member, route, endpoint.
        self._speaking: dict[int, tuple[str, bytes, str]] = {}
        self._num_speaking: Counter[str] = Counter()
        self._pending: dict[str, deque[float]] = {}  # member -> times of admission
        self._overdue: list[tuple[int, str]] = []
        self._reported: set[str] = set()
        # Member -> the times of its first and latest refusal, for members that keep trying.
        self._refused: dict[str, tuple[float, float]] = {}

    def held_by(self, member: str) -> int:
        """Return the number of a member's connections, including pending ones."""
        with self._lock:
            return self._held_by(member)

    def admit(self, member: str, address: str = "") -> bool:
        """Count a new connection of `member`; return False if the member has reached its limit."""
        with self._lock:
            if self._held_by(member) >= self.max_per_member:
                self._drop_void(member)
            held = self._held_by(member)
            if held < self.max_per_member or self._yields_to(member):
                self._pending.setdefault(member, deque()).append(self._clock())
                self._refused.pop(member, None)
                return True
            self.num_refused += 1
            is_news = member not in self._reported
            self._reported.add(member)
        if is_news:
            _logger.warning(
                "member %s holds %d connections to this process, all that it may; one more, from "
                "%s, was refused, and will be until one of them ends",
                *(member, held, address or "somewhere"),
            )
        return False

    def happened(self, event: SocketEvent) -> None:
        """Process an event of the socket's monitor."""
        if not event.endpoint.startswith("tcp://"):
            return  # ipc peers have no key, and are not counted
        with self._lock:
            if event.kind == ACCEPTED:
                self._end(event.value)
                self._silent[event.value] = self._clock(), event.endpoint
                self._make_room(event.value)
            elif event.kind == DISCONNECTED:
                self._end(event.value)

    def spoke(self, member: str, route: bytes, descriptor: int) -> None:
        """Record the first message on a connection.

        Thread  the socket's reader
        """
        with self._lock:
            pending = self._pending.get(member)
            if pending:
                pending.popleft()
            known = self._silent.get(descriptor) or self._speaking.get(descriptor)
            if known is not None:
                self._end(descriptor)
                self._speaking[descriptor] = member, route, str(known[-1])
                self._num_speaking[member] += 1
            else:
                self.ended.append(route)  # the connection ended before its message was read

    def take_overdue(self) -> list[tuple[int, str]]:
        """Return the connections to close, as (descriptor, endpoint), and forget them."""
        with self._lock:
            overdue, self._overdue = self._overdue, []
            return overdue

    def _held_by(self, member: str) -> int:
        return self._num_speaking[member] + len(self._pending.get(member, ()))

    def _end(self, descriptor: int) -> None:
        self._silent.pop(descriptor, None)
        member, route, _ = self._speaking.pop(descriptor, ("", b"", ""))
        if member:
            self._num_speaking[member] -= 1
            self.ended.append(route)

    def _make_room(self, newest: int) -> None:
        """Mark the oldest silent connections as overdue if few descriptors are left."""
        limit = self._descriptor_limit()
        # New descriptors get the lowest free number, so the newest number shows how many are in
        # use.
        if newest < limit - min(_RESERVE, limit // 4):
            return
        while len(self._silent) > _SPARED:
            oldest = next(iter(self._silent))
            self._overdue.append((oldest, self._silent.pop(oldest)[1]))

    def _yields_to(self, member: str) -> bool:
        """Mark the connections of a member's frozen earlier life as overdue; return whether any
        were found.
        """
        now = self._clock()
        since, last = self._refused.get(member, (now, now))
        # A refused peer may notice the refusal only when its handshake times out.
        if now - last > self._speaks_within_s:
            since = now  # the member had stopped trying in between
        self._refused[member] = since, now
        if now - since < _YIELDS_AFTER_S:
            return False
        frozen = [
            (descriptor, endpoint)
            for descriptor, (holder, _, endpoint) in self._speaking.items()
            if holder == member and self._silence_of(descriptor) >= _YIELDS_AFTER_S
        ]
        self._overdue += frozen
        return bool(frozen)

    def _drop_void(self, member: str) -> None:
        pending = self._pending.get(member, deque())
        # The connection that requests admission is silent too, but has no pending admission yet.
        silent = max(0, len(self._silent) - 1)
        num_void = sum(len(times) for times in self._pending.values()) - silent
        before = self._clock() - self._speaks_within_s
        while pending and (num_void > 0 or pending[0] < before):
            pending.popleft()
            num_void -= 1
        self._overdue += [(fd, at) for fd, (when, at) in self._silent.items() if when < before]


def hang_up(descriptor: int, endpoint: str) -> bool:
    """Shut down the connection with `endpoint` at one end; return False if it has ended already.

    Note    libzmq has no function for this. After the shutdown libzmq reads an end of stream, as if
            the peer had closed the connection. The descriptor may belong to another connection by
            now, so a copy of the descriptor is checked first. If no descriptor is left for a copy,
            the descriptor itself is used: in this case most connections belong to strangers
    """
    try:
        looked_at = os.dup(descriptor)
    except OSError as error:
        if error.errno != errno.EMFILE:
            return False
        looked_at = descriptor
    try:
        connection = standard_socket.socket(fileno=looked_at)
    except OSError:  # not a socket
        if looked_at != descriptor:
            os.close(looked_at)
        return False
    try:
        ends = connection.getsockname(), connection.getpeername()
        is_ours = any(_is_at(end, endpoint) for end in ends)
        if is_ours:
            connection.shutdown(standard_socket.SHUT_RDWR)
        return is_ours
    except OSError:
        return False
    finally:
        if looked_at == descriptor:
            connection.detach()
        connection.close()


def silence_s(descriptor: int) -> float:
    """Return the seconds since a TCP connection last received data; infinite if unknown."""
    try:
        with standard_socket.socket(fileno=os.dup(descriptor)) as connection:
            facts = connection.getsockopt(
                standard_socket.IPPROTO_TCP, standard_socket.TCP_INFO, _LAST_DATA.stop
            )
    except (AttributeError, OSError):
        return math.inf
    return int.from_bytes(facts[_LAST_DATA], sys.byteorder) / 1000


def _is_at(end: object, endpoint: str) -> bool:
    if isinstance(end, tuple):
        return endpoint.startswith("tcp://") and endpoint.endswith(f":{end[1]}")
    return endpoint == f"ipc://{end}"
