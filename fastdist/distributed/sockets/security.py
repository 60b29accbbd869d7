"""The security of tcp sockets: CURVE, with keys from the job's secret or from certificates."""

from __future__ import annotations

import threading
import warnings
from abc import ABC, abstractmethod
from typing import Protocol

import zmq
from zmq.utils import z85

from . import authenticator
from .addresses import packed_address
from .certificates import CertificateFolder
from .connections import MAX_CONNECTIONS, Connections
from .context import Socket
from .events import ACCEPTED, DISCONNECTED, HANDSHAKE_FAILED, MISMATCHED
from .monitor import SocketMonitor
from .secret import JobSecret

# The most members of a group without a world size. The first check of an unknown key takes 27 us
# for each of them.
MAX_DYNAMIC_MEMBERS = 4_096

_warning_lock = threading.Lock()
_warned_of_plaintext = False


class Security(Protocol):
    """The authentication that bind and connect set up for a tcp socket."""

    kind: str
    # False if a member can pose as another member, for example because all keys come from one
    # secret.
    tells_members_apart: bool

    def protect_binds(self, socket: Socket, host: str) -> None:
        """Require authentication at the endpoints that `socket` binds from now on."""

    def protect_connects(self, socket: Socket, host: str, peer: str) -> None:
        """Authenticate this process and `peer` to each other on new connections of `socket`."""


class NoSecurity:
    """Plain TCP; must be chosen explicitly: any process that reaches the port may send and read."""

    kind = "none"
    tells_members_apart = False

    def protect_binds(self, socket: Socket, host: str) -> None:
        """Leave the socket unchanged; warn once per process if `host` is not on this machine."""
        if socket.refusals is not None:
            socket.refusals.asks_for_keys = False
            _attend(socket, lambda public_key: None)
        warn_of_plaintext(host)

    def protect_connects(self, socket: Socket, host: str, peer: str) -> None:
        """Leave the socket unchanged; warn once per process if `host` is not on this machine."""
        warn_of_plaintext(host)

    def __repr__(self) -> str:
        return "NoSecurity()"


class _Keyed(ABC):
    """Security by CURVE: this member's keys, and the look-ups of other members' keys."""

    kind = "curve"
    tells_members_apart = False

    def __init__(
        self, member: str, secret_key: bytes, admits: authenticator.Lookup, max_connections: int
    ) -> None:
        self.member = member
        self._secret_key = secret_key
        self._public_key = zmq.curve_public(secret_key)
        self._admits = admits
        self._max_connections = max_connections

    def protect_binds(self, socket: Socket, host: str) -> None:
        """Make the socket a CURVE server; the ZAP handler admits peers, and counts connections."""
        if self._max_connections and socket.connections is None:
            socket.connections = Connections(self._max_connections)
        domain = _attend(socket, self._admits)
        socket.set(zmq.CURVE_SERVER, 1)
        socket.set(zmq.CURVE_SECRETKEY, self._secret_key)
        socket.set(zmq.ZAP_DOMAIN, domain.encode())
        # Without this option libzmq admits every peer if no ZAP handler runs (libzmq issue 2711).
        socket.set(zmq.ZAP_ENFORCE_DOMAIN, 1)

    def protect_connects(self, socket: Socket, host: str, peer: str) -> None:
        """Make the socket a CURVE client that connects only to the holder of the key of `peer`."""
        if not peer:
            raise ValueError(
                "connect: CURVE needs peer=, the member at the other end: 'rank:2' or 'store'"
            )
        socket.set(zmq.CURVE_SERVERKEY, self._public_key_of(peer))
        socket.set(zmq.CURVE_PUBLICKEY, self._public_key)
        socket.set(zmq.CURVE_SECRETKEY, self._secret_key)

    @abstractmethod
    def _public_key_of(self, member: str) -> bytes:
        """Return the public key of the member at the other end, in Z85 letters."""


class CurveSecurity(_Keyed):
    """One member's keys, and the list of members whose keys it accepts, all from the job's secret.

    `member` is "rank:3" for worker 3, "store" for the store's server, "client" for its clients. All
    keys are derived from (secret, job id, member), so no keys are exchanged and no certificates are
    needed. Members of a job can therefore pose as each other: the secret keeps strangers out, but
    does not protect members from each other.

    Thread  any
    """

    def __init__(
        self,
        secret: JobSecret,
        job_id: str,
        member: str,
        roster: Roster,
        max_connections: int = 0,
    ) -> None:
        secret_key = derive_secret_key(secret, job_id, member)
        super().__init__(member, secret_key, roster.rank_of, max_connections)
        self._secret = secret
        self._job_id = job_id

    @classmethod
    def for_rank(
        cls,
        secret: JobSecret,
        job_id: str,
        rank: int,
        world_size: int,
        max_connections: int = MAX_CONNECTIONS,
    ) -> CurveSecurity:
        """Return the security of worker `rank`, which accepts ranks below `world_size`.

        A `world_size` of 0 means a dynamic group: ranks below MAX_DYNAMIC_MEMBERS are accepted.
        """
        roster = Roster(secret, job_id, "rank", world_size or MAX_DYNAMIC_MEMBERS)
        return cls(secret, job_id, f"rank:{rank}", roster, max_connections)

    def _public_key_of(self, member: str) -> bytes:
        return zmq.curve_public(derive_secret_key(self._secret, self._job_id, member))

    def __repr__(self) -> str:
        return f"CurveSecurity({self.member!r}, job_id={self._job_id!r}, {self._secret!r})"


class CertificateSecurity(_Keyed):
    """One member's own key pair, and the public keys of all others, from a folder of certificates.

    No member can compute another's key, so a peer that authenticates as a rank is that rank.

    Thread  any
    """

    kind = "certs"
    tells_members_apart = True

    def __init__(
        self, folder: CertificateFolder, member: str, admits: authenticator.Lookup, cap: int = 0
    ) -> None:
        super().__init__(member, folder.secret_key(member), admits, cap)
        self._folder = folder

    @classmethod
    def for_rank(
        cls,
        folder: CertificateFolder,
        rank: int,
        world_size: int,
        max_connections: int = MAX_CONNECTIONS,
    ) -> CertificateSecurity:
        """Return the security of worker `rank`, which accepts ranks below `world_size`.

        A `world_size` of 0 means a dynamic group: every rank with a certificate is accepted.
        """
        folder.read_ranks()

        def admits(public_key: bytes) -> str | None:
            found = folder.rank_of(public_key)
            return found if found is None or not world_size or int(found) < world_size else None

        return cls(folder, f"rank:{rank}", admits, max_connections)

    @classmethod
    def for_store(cls, folder: CertificateFolder, max_connections: int = 0) -> CertificateSecurity:
        """Return the security of the store's server, which accepts every rank."""
        folder.read_ranks()
        return cls(folder, "store", folder.rank_of, max_connections)

    @classmethod
    def for_store_client(cls, folder: CertificateFolder, rank: int) -> CertificateSecurity:
        """Return the security of a store's client, with the key of `rank`; it admits no peers."""
        return cls(folder, f"rank:{rank}", lambda public_key: None)

    def _public_key_of(self, member: str) -> bytes:
        return self._folder.public_key(member)

    def __repr__(self) -> str:
        return f"CertificateSecurity({self.member!r}, {self._folder!r})"


class Roster:
    """The public keys of the members `kind:0` to `kind:size-1`, computed when an unknown key comes.

    Thread  any; the look-up of an unknown key may take 27 us per member
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
        """Return the number of the member with this 32-byte key as text; None for a stranger."""
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


def _attend(socket: Socket, admits: authenticator.Lookup) -> str:
    """Make the ZAP handler authenticate the socket's peers from now on; return its domain."""
    kinds: list[str] = []
    if not socket.is_monitored:
        if socket.connections is not None or socket.refusals is not None:
            kinds += [ACCEPTED, DISCONNECTED]
        if socket.refusals is not None:
            kinds += [HANDSHAKE_FAILED, MISMATCHED]
    # Create the monitor before the bind; otherwise the first events are lost. Monitor only these
    # kinds of events: if strangers use up all descriptors, libzmq reports failed accepts at a very
    # high rate.
    events = SocketMonitor(socket, kinds, reader_closes=True) if kinds else None
    domain = authenticator.admit(admits, socket.connections, socket.refusals, events)
    socket.when_closed(lambda: authenticator.dismiss(domain))
    return domain


def derive_secret_key(secret: JobSecret, job_id: str, member: str) -> bytes:
    """Return the CURVE secret key of one member of one job, in ZeroMQ's Z85 letters."""
    return bytes(z85.encode(secret.derive("curve", job_id, member)))


def authenticated_rank(frame: zmq.Frame) -> int | None:
    """Return the rank that the sender of this frame has proved; None without authentication.

    Note    a ROUTER's routing id is only the peer's own claim, but this rank is authenticated.
            `frame` may be any frame of a message that was received with copy=False, also the frame
            with the routing id
    """
    try:
        return int(frame.get("User-Id"))
    except (zmq.ZMQError, ValueError):
        # ipc, inproc and plain tcp have no User-Id, or an empty one: the peer is not authenticated.
        return None


def is_loopback(host: str) -> bool:
    """Return whether `host`, a name or an address, is on this machine's loopback interface."""
    # The resolution of another name may change.
    packed = packed_address(host) or b""
    if len(packed) == 4:
        return packed[0] == 127
    return host == "localhost" or packed == bytes(15) + b"\1"


def warn_of_plaintext(host: str) -> None:
    """Warn, once per process, that connections to `host` are in plain text."""
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
