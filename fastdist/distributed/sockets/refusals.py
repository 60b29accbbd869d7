"""Peers that a bound socket refused: counted by address and reason, and reported once."""

# Note [From where somebody came] libzmq reports a failed handshake with neither the address nor the
# descriptor. The descriptor is in the event before, when the connection was accepted, and in the
# one right after, its end. Its peer address is read at once, sometimes too late: a peer of this
# machine connects, fails and closes within a tenth of a millisecond. Then the kernel knows it:
# where this end closed, the connection stays in its table for a minute.

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

# Limits on what a flood of the port can cost: hosts that are distinguished, and log lines.
MAX_HOSTS: Final = 64
MAX_LINES: Final = 16
MAX_HOMES: Final = 65_536  # of members, as many as there may be ranks
# How long and how often to look for an address that was gone before it could be read.
_LOOKED_FOR_S: Final = 0.5
_LOOK_PAUSE_S: Final = 0.1
# A refused connection ended so long ago at most; plus the time in which no events were read.
_RECENT_S: Final = 2.0
_MAX_KNOWN: Final = 1024
_SOMEWHERE: Final = "an unknown address"
_OTHERS: Final = "other addresses"

# Told a level of logging and a line, on the ZAP handler's thread.
Tell = Callable[[int, str], object]

_logger = logging.getLogger(__name__)


class Reason(NamedTuple):
    """Why somebody was refused; `is_alarming` where it may be one who belongs to the job."""

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
    """Peers that connected to one socket and were not admitted. See Note [From where somebody
    came].

    The first refusal of each host and reason is reported, by default to the log: as a warning where
    the peer may belong to the job, else as information.

    Thread  any; `happened`, `judged` and `look` are called by the ZAP handler's alone
    """

    # Whether members show a key; where they do not, another protocol looks like a member's.
    asks_for_keys = True

    def __init__(self, tell: Tell = _logger.log) -> None:
        self._tell = tell
        # Guards all below it.
        self._lock = threading.Lock()
        self._endpoint = ""
        # The address at each descriptor, until it brings a message or ends.
        self._came: dict[int, Address | None] = {}
        # How many of each host have shown a key and not spoken yet: their end is not reported.
        self._judged: Counter[str] = Counter()
        # Where members are: a Knock of theirs (pulse.py) ends before it has said who it is.
        self._homes: set[str] = set()
        # The failure of the connection whose end is reported next.
        self._failure: Reason | None = None
        # When and why those failed whose address is still looked for; and whose is known.
        self._nameless: deque[tuple[float, Reason]] = deque()
        self._known: deque[Address] = deque(maxlen=_MAX_KNOWN)
        # A look takes milliseconds, so it is not taken at every event.
        self._look_at = 0.0
        # Until when all had been read that libzmq tells: now, and before the first of the nameless.
        self._read_until = self._read_before = time.monotonic()
        self._counts: Counter[tuple[str, Reason]] = Counter()
        self._news: list[tuple[int, str]] = []
        self._num_logged = 0

    def happened(self, event: SocketEvent) -> None:
        """Read the events of the socket's monitor."""
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
        """Take note of one who has shown a key."""
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
        """Look for addresses that are not known yet; return when to do so again, None for never.

        `read_until` is a time before which all that libzmq tells has been read.
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
        """Return how many were refused from each host, and why; first who may belong to the job."""
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
            # A member without a word, or one that was refused by its key and counted then.
            host = address[0] if address is not None else max(self._judged, default="")
            if self._judged[host] > 0:
                self._judged[host] -= 1
                return
            failure = OTHER_PROTOCOL
        if address is None and failure is SAID_NOTHING and self._homes:
            return  # most likely a knock; whoever else says nothing belongs to no job either
        if address is None:
            if not self._nameless:
                self._read_before = self._read_until
            self._nameless.append((time.monotonic(), failure))
            return
        self._known.append(address)
        self._count(address[0], failure)

    def _find_names(self, before: float) -> None:
        """Look for those without a name, and give up on those that came before a time."""
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
