"""Who may connect to a tcp socket, and how both ends prove it: CURVE, keyed by the job's secret."""

from __future__ import annotations

import ipaddress
import threading
import warnings
from typing import Protocol

import zmq
from zmq.utils import z85

from . import authenticator
from .context import Socket
from .secret import JobSecret

# Whom a group without a world size may grow to; each member costs 27 us once, when the first
# unknown key is seen.
MAX_DYNAMIC_MEMBERS = 4_096

_warning_lock = threading.Lock()
_warned_of_plaintext = False


class Security(Protocol):
    """What bind and connect ask before a tcp socket leaves or enters this process."""

    kind: str

    def protect_binds(self, socket: Socket, host: str) -> None:
        """Make the endpoints that socket binds from now on ask for proof."""

    def protect_connects(self, socket: Socket, host: str, peer: str) -> None:
        """Make the connections of socket from now on prove who we are, and that they reach peer."""


class NoSecurity:
    """Plain TCP, a decision and never a default: who reaches the port may speak and read."""

    kind = "none"

    def protect_binds(self, socket: Socket, host: str) -> None:
        """Leave the socket as it is; warn once a process when host is not this machine alone."""
        warn_of_plaintext(host)

    def protect_connects(self, socket: Socket, host: str, peer: str) -> None:
        """Leave the socket as it is; warn once a process when host is not this machine alone."""
        warn_of_plaintext(host)

    def __repr__(self) -> str:
        return "NoSecurity()"


class CurveSecurity:
    """One member's keys, and the list of members whose keys it accepts.

    `member` is "rank:3" for worker 3, "store" for the store's server, "client" for those who talk
    to it. All keys follow from (secret, job id, member), so nothing is exchanged and no certificate
    is shipped; that also means that members of a job can pose as each other: the secret keeps
    strangers out, not friends in order.

    Thread  any
    """

    kind = "curve"

    def __init__(self, secret: JobSecret, job_id: str, member: str, roster: Roster) -> None:
        self.member = member
        self._secret = secret
        self._job_id = job_id
        self._roster = roster
        self._secret_key = derive_secret_key(secret, job_id, member)
        self._public_key = zmq.curve_public(self._secret_key)

    @classmethod
    def for_rank(cls, secret: JobSecret, job_id: str, rank: int, world_size: int) -> CurveSecurity:
        """Return worker rank's security: it accepts ranks below world_size (0: a dynamic group)."""
        roster = Roster(secret, job_id, "rank", world_size or MAX_DYNAMIC_MEMBERS)
        return cls(secret, job_id, f"rank:{rank}", roster)

    def protect_binds(self, socket: Socket, host: str) -> None:
        """Be a CURVE server whose clients our own ZAP handler looks up in the roster."""
        domain = authenticator.admit(self._roster.rank_of)
        socket.when_closed(lambda: authenticator.dismiss(domain))
        socket.set(zmq.CURVE_SERVER, 1)
        socket.set(zmq.CURVE_SECRETKEY, self._secret_key)
        socket.set(zmq.ZAP_DOMAIN, domain.encode())
        # Without this libzmq lets everybody in when no ZAP handler runs (libzmq issue 2711).
        socket.set(zmq.ZAP_ENFORCE_DOMAIN, 1)

    def protect_connects(self, socket: Socket, host: str, peer: str) -> None:
        """Be a CURVE client that talks to the holder of peer's key and to nobody else."""
        if not peer:
            raise ValueError(
                "connect: CURVE needs peer=, the member at the other end: 'rank:2' or 'store'"
            )
        peer_key = zmq.curve_public(derive_secret_key(self._secret, self._job_id, peer))
        socket.set(zmq.CURVE_SERVERKEY, peer_key)
        socket.set(zmq.CURVE_PUBLICKEY, self._public_key)
        socket.set(zmq.CURVE_SECRETKEY, self._secret_key)

    def __repr__(self) -> str:
        return f"CurveSecurity({self.member!r}, job_id={self._job_id!r}, {self._secret!r})"


class Roster:
    """The public keys of the members `kind:0` to `kind:size-1`, computed at the first look-up.

    Thread  any; the first look-up of an unknown key may take 27 us a member
    """

    def __init__(self, secret: JobSecret, job_id: str, kind: str, size: int) -> None:
        self._secret = secret
        self._job_id = job_id
        self._kind = kind
        self._size = size
        # Guards _ranks, which only grows.
        self._ranks_lock = threading.Lock()
        self._ranks: dict[bytes, str] = {}

    def rank_of(self, public_key: bytes) -> str | None:
        """Return the number of the member with this 32-byte key as text, None for a stranger."""
        with self._ranks_lock:
            rank = self._ranks.get(public_key)
            while rank is None and len(self._ranks) < self._size:
                number = str(len(self._ranks))
                secret_key = derive_secret_key(self._secret, self._job_id, f"{self._kind}:{number}")
                member_key = z85.decode(zmq.curve_public(secret_key))
                self._ranks[member_key] = number
                if member_key == public_key:
                    rank = number
            return rank


def derive_secret_key(secret: JobSecret, job_id: str, member: str) -> bytes:
    """Return the CURVE secret key of one member of one job, in ZeroMQ's Z85 letters."""
    return bytes(z85.encode(secret.derive("curve", job_id, member)))


def authenticated_rank(frame: zmq.Frame) -> int | None:
    """Return the rank that the sender of this received frame has proved, None where none was asked.

    Note    the routing id of a ROUTER is the peer's own claim; this is not. Any frame of the
            message will do, the routing id's as well; receive it with copy=False.
    """
    try:
        return int(frame.get("User-Id"))
    except (zmq.ZMQError, ValueError):
        # ipc, inproc and plain tcp carry no User-Id (or an empty one): nobody was authenticated.
        return None


def is_loopback(host: str) -> bool:
    """Return whether host, a name or an address, is reached without leaving this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False  # a name: who resolves it may resolve it otherwise tomorrow


def warn_of_plaintext(host: str) -> None:
    """Warn, once a process, that host is spoken to in the clear."""
    global _warned_of_plaintext
    with _warning_lock:
        if _warned_of_plaintext or is_loopback(host):
            return
        _warned_of_plaintext = True
    warnings.warn(
        f"security='none': traffic with {host!r} is neither encrypted nor authenticated; "
        "anybody who reaches the port can run code here. Give a FASTDIST_JOB_SECRET_FILE instead",
        RuntimeWarning,
        stacklevel=4,
    )
