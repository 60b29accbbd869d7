"""Peers that a bound socket refused: counted by address and reason, each reported once."""

# Note [From where somebody came]
# libzmq's event for a failed handshake has neither an address nor a descriptor. The descriptor is
# in the preceding event, which reports the accepted connection, and in the following event, which
# reports its end. The descriptor's peer address is read at the preceding event. This is sometimes
# too late: a peer on this machine connects, fails and closes within a tenth of a millisecond. If
# this end closed the connection, the address stays in a table of the kernel for a minute, and is
# read there.

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import Final, NamedTuple

import zmq

from .events import ACCEPTED, DISCONNECTED, HANDSHAKE_FAILED, MISMATCHED, SocketEvent
from .other_end import Address, ends_closed_here, other_end

# Limits on the cost of a flood of connections: the number of distinguished hosts, and log lines.
MAX_HOSTS: Final = 64
MAX_LINES: Final = 16
MAX_HOMES: Final = 65_536  # addresses of members; as many as there may be ranks
# How long to look for an address that could not be read in time, and the pause between attempts.
_LOOKED_FOR_S: Final = 0.5
_LOOK_PAUSE_S: Final = 0.1
# Addresses are looked up among the connections that ended in this time, plus the time in which no
# events were read.
_RECENT_S: Final = 2.0
_MAX_KNOWN: Final = 1024
_SOMEWHERE: Final = "an unknown address"
_OTHERS: Final = "other addresses"

# A function that gets a log level and a line, on the ZAP handler's thread.
Tell = Callable[[int, str], object]

_logger = logging.getLogger(__name__)


class Reason(NamedTuple):
    """Why a peer was refused; `is_alarming` if the peer may belong to the job."""

    text: str
    is_alarming: bool


OTHER_KEY: Final = Reason(
    "it has another job secret or FASTDIST_JOB_ID, or expects the certificate of another store",
    True,
)
OTHER_SECURITY: Final = Reason(
    "its security= differs from this end's, such as 'none' at one end alone", True
)
NO_MEMBER: Final = Reason(
    "its key belongs to no member; with security='certs': its certificate is not in the folder "
    "here",
    True,
)
OTHER_PROTOCOL: Final = Reason(
    "it does not run fastdist: another protocol, a port scanner or a health check", False
)
SAID_NOTHING: Final = Reason(
    "it left, or fell silent, before it identified itself: a health check, or it was cut off",
    False,
)
_MISMATCHES: Final = {
    int(zmq.PROTOCOL_ERROR_ZMTP_CRYPTOGRAPHIC): OTHER_KEY,
    int(zmq.PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH): OTHER_SECURITY,
}


class Refusals:
    """Peers that connected to one socket and were not admitted.

    See Note [From where somebody came]. The first refusal of each host and reason is reported, by
    default to the log: as a warning if the peer may belong to the job, else as information.

    Thread  any; `happened`, `judged` and `look` only on the ZAP handler's thread
    """

    # Whether members present a key. If they do not, a member looks like a peer with another
    # protocol.
    asks_for_keys = True

    def __init__(self, tell: Tell = _logger.log) -> None:
        self._tell = tell
        # Guards all attributes below.
        self._lock = threading.Lock()
        self._endpoint = ""
        # Descriptor -> peer address, until the connection brings a message or ends.
        self._came: dict[int, Address | None] = {}
        # By host: the number of connections that have presented a key, but not sent a message. The
        # end of such a connection is not reported.
        self._judged: Counter[str] = Counter()
        # The hosts of members. A Knock (pulse.py) of a member ends before the member has identified
        # itself, so silent connections from these hosts are not reported.
        self._homes: set[str] = set()
        # The reason of the failed handshake whose connection's end is reported next.
        self._failure: Reason | None = None
        # _nameless: (time, reason) of failures whose address is not known yet. _known: addresses
        # of failures that were counted.
        self._nameless: deque[tuple[float, Reason]] = deque()
        self._known: deque[Address] = deque(maxlen=_MAX_KNOWN)
        # The time of the next look-up of addresses; there are few, because each takes milliseconds.
        self._look_at = 0.0
        # _read_until: all libzmq events before this time were read. _read_before: the value of
        # _read_until when the first failure was added to _nameless.
        self._read_until = self._read_before = time.monotonic()
        self._counts: Counter[tuple[str, Reason]] = Counter()
        self._news: list[tuple[int, str]] = []
        self._num_logged = 0

    def happened(self, event: SocketEvent) -> None:
        """Process an event of the socket's monitor."""
        if not event.endpoint.startswith("tcp://"):
            return
        with self._lock:
            self._endpoint = event.endpoint
            if event.kind == ACCEPTED:
                self._came[event.value] = other_end(event.value, self._port())
            elif event.kind == MISMATCHED:
                self._failure = _MISMATCHES.get(event.value, OTHER_PROTOCOL)
            elif event.kind == HANDSHAKE_FAILED:
                self._failure = SAID_NOTHING
            elif event.kind == DISCONNECTED:
                failure, self._failure = self._failure, None
                if event.value in self._came:
                    self._ended(self._came.pop(event.value), failure)
        self._tell_news()

    def judged(self, host: str, *, may_enter: bool) -> None:
        """Record that a peer has presented a key."""
        with self._lock:
            self._judged[host] += 1
            if not may_enter:
                self._count(host, NO_MEMBER)
        self._tell_news()

    def spoke(self, descriptor: int, host: str) -> None:
        """Record the first message of a connection: its end is not a refusal.

        Thread  the socket's reader
        """
        with self._lock:
            if self._came.pop(descriptor, None) is not None:
                self._judged[host] -= 1
                if len(self._homes) < MAX_HOMES:
                    self._homes.add(host)

    def look(self, read_until: float) -> float | None:
        """Look up addresses that are not known yet; return when to call this again, or None.

        `read_until` is a time before which all events of libzmq were read.
        """
        now = time.monotonic()
        with self._lock:
            if self._nameless and now >= self._look_at:
                self._find_names(now - _LOOKED_FOR_S)
                self._look_at = time.monotonic() + _LOOK_PAUSE_S
            look_at = self._look_at if self._nameless else None
            self._read_until = read_until
        self._tell_news()
        return look_at

    def summary(self) -> list[str]:
        """Return the number of refusals by host and reason; possible members of the job first."""
        with self._lock:
            if self._nameless:
                self._find_names(time.monotonic())
            counts = sorted(
                self._counts.items(), key=lambda one: (not one[0][1].is_alarming, -one[1])
            )
        return [f"{count} from {host}: {reason.text}" for (host, reason), count in counts]

    def _port(self) -> int:
        return int(self._endpoint.rpartition(":")[2])

    def _ended(self, address: Address | None, failure: Reason | None) -> None:
        if failure is None:
            if not self.asks_for_keys:
                return
            # A member that sent no message, or a peer whose key was refused and counted before.
            host = address[0] if address is not None else max(self._judged, default="")
            if self._judged[host] > 0:
                self._judged[host] -= 1
                return
            failure = OTHER_PROTOCOL
        if address is None and failure is SAID_NOTHING and self._homes:
            return  # most likely a knock; other silent peers do not belong to the job either
        if address is None:
            if not self._nameless:
                self._read_before = self._read_until
            self._nameless.append((time.monotonic(), failure))
            return
        self._known.append(address)
        self._count(address[0], failure)

    def _find_names(self, before: float) -> None:
        """Look up missing addresses; count failures before the time `before` without an address."""
        known, within_s = set(self._known), time.monotonic() - self._read_before + _RECENT_S
        ends = ends_closed_here(self._port(), within_s)
        found = deque(end for end in ends if end not in known)
        while self._nameless and (found or self._nameless[0][0] <= before):
            _, reason = self._nameless.popleft()
            if found:
                self._known.append(found[0])
            self._count(found.popleft()[0] if found else _SOMEWHERE, reason)

    def _count(self, host: str, reason: Reason) -> None:
        if reason is SAID_NOTHING and host in self._homes:
            return
        hosts = {known for known, _ in self._counts}
        if host not in hosts and len(hosts) >= MAX_HOSTS:
            host = _OTHERS
        self._counts[host, reason] += 1
        if self._counts[host, reason] > 1 or self._num_logged > MAX_LINES:
            return
        self._num_logged += 1
        if self._num_logged > MAX_LINES:
            line = (
                f"more than {MAX_LINES} have been refused at {self._endpoint}; no more are reported"
            )
        else:
            line = f"a connection from {host} was refused at {self._endpoint}: {reason.text}"
        self._news.append((logging.WARNING if reason.is_alarming else logging.INFO, line))

    def _tell_news(self) -> None:
        with self._lock:
            news, self._news = self._news, []
        for level, line in news:
            self._tell(level, line)
