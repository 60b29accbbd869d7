"""The connections that members hold to one bound socket, counted, and how many one may hold."""

# Note [Who holds which connection] libzmq reports related facts in three places. The ZAP handler
# gets the key that wants to come in, but not its descriptor. The socket's monitor reports
# descriptors that were accepted and that ended, but not whose they are. A message has both, but
# only once its sender has spoken. So an admission is first counted as pending; the first message
# binds it to its descriptor, whose end frees the slot. Where more admissions are pending than
# descriptors are silent, some ended before they spoke, and are void; their members are unknown, so
# the oldest of the requesting member are dropped: a slot too many for a moment is better than a
# peer that is locked out. A peer that stays silent for longer than a handshake may take is admitted
# and sends nothing: when a member wants more than it may hold, such connections are closed. If it
# goes on wanting more for longer than the detection of a cut connection takes, those of its
# connections that have brought nothing for as long are closed too: they belong to an earlier,
# frozen incarnation. A live one reconnects, and a member does this only to itself.

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

# One lane for asynchronous calls and eight for callers that block: what an honest peer opens.
MAX_CONNECTIONS = 9
# Longer than a handshake may take: whoever is silent for this time has been admitted.
SPEAKS_WITHIN_S = 10.0
# Longer than it takes to find out that a connection is cut: see UNREACHABLE_MS in options.py.
_YIELDS_AFTER_S = 3.0
# Where strangers use up the descriptors, nobody else gets one, and libzmq ends a process that
# cannot accept at its unix socket. So when so few are left, silent connections are closed, the
# oldest first; the newest are spared: a member identifies itself within milliseconds.
_RESERVE = 1024
_SPARED = 8

# The bytes of Linux's struct tcp_info with the milliseconds since the last data.
_LAST_DATA = slice(52, 56)

_logger = logging.getLogger(__name__)


class Connections:
    """The connections of one socket. See Note [Who holds which connection].

    Thread  any; only the ZAP handler's thread calls `admit` and `happened`, and it reads the
            monitor's events before it admits anybody
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
        # Routes whose connection has ended, for the socket's reader to forget.
        self.ended: deque[bytes] = deque()
        self.num_refused = 0
        self._speaks_within_s = speaks_within_s
        self._clock = clock
        self._descriptor_limit = descriptor_limit
        self._silence_of = silence_of or silence_s
        # Guards everything below.
        self._lock = threading.RLock()
        # Descriptor -> when and at which endpoint it was accepted, until it brings a message.
        self._silent: dict[int, tuple[float, str]] = {}
        # Descriptor -> member, route, endpoint.
        self._speaking: dict[int, tuple[str, bytes, str]] = {}
        self._num_speaking: Counter[str] = Counter()
        self._pending: dict[str, deque[float]] = {}  # member -> when each was admitted
        self._overdue: list[tuple[int, str]] = []
        self._reported: set[str] = set()
        # Member -> the times of its first and latest refusal, for members that go on trying.
        self._refused: dict[str, tuple[float, float]] = {}

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
        """Read the events of the socket's monitor."""
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
            known = self._silent.get(descriptor) or self._speaking.get(descriptor)
            if known is not None:
                self._end(descriptor)
                self._speaking[descriptor] = member, route, str(known[-1])
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
        member, route, _ = self._speaking.pop(descriptor, ("", b"", ""))
        if member:
            self._num_speaking[member] -= 1
            self.ended.append(route)

    def _make_room(self, newest: int) -> None:
        """Let those go that have been silent for longest, if descriptors become few."""
        limit = self._descriptor_limit()
        # A new descriptor gets the lowest free number, so the newest shows how many there are.
        if newest < limit - min(_RESERVE, limit // 4):
            return
        while len(self._silent) > _SPARED:
            oldest = next(iter(self._silent))
            self._overdue.append((oldest, self._silent.pop(oldest)[1]))

    def _yields_to(self, member: str) -> bool:
        """Let those connections of member go that its earlier life may have frozen with."""
        now = self._clock()
        since, last = self._refused.get(member, (now, now))
        # A refused peer may notice that only when its handshake has timed out.
        if now - last > self._speaks_within_s:
            since = now  # it had given up in between
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
        # The one that asks to come in is silent, too, but not admitted yet.
        silent = max(0, len(self._silent) - 1)
        num_void = sum(len(times) for times in self._pending.values()) - silent
        before = self._clock() - self._speaks_within_s
        while pending and (num_void > 0 or pending[0] < before):
            pending.popleft()
            num_void -= 1
        self._overdue += [(fd, at) for fd, (when, at) in self._silent.items() if when < before]


def hang_up(descriptor: int, endpoint: str) -> bool:
    """End a connection of which endpoint is one end; False if it has ended already.

    Note    libzmq has no call for that. It reads the end of the stream, as if the peer had closed
            it. The descriptor may be another connection's by now, so a copy is checked before it is
            used; where no descriptor is left for a copy, itself: then most are strangers' anyway
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
    """Return for how long a TCP connection has brought nothing; infinite where nobody knows."""
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
