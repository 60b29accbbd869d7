"""A key pair for each member in a folder of files, for jobs whose ranks must not share a secret."""

# Note [A folder of certificates] The files are those of pyzmq's create_certificates(folder, name):
# NAME.key, public, for every member on every machine; NAME.key_secret only where that member runs.
# The names are `store` and `rank-0`, `rank-1` and so on. The public files say who is admitted, so
# nobody else may be able to write them; the secret ones nobody else may be able to read.

from __future__ import annotations

import logging
import os
import re
import stat
import struct
import threading
import time

import zmq
from zmq.utils import z85

from fastdist.core.errors import AuthenticationError

from .secret import require_owner

_MAX_FILE_BYTES = 64 * 1024
# What changes within this time of a look may have the same time stamp as what was seen.
_STAMP_NS = 1_000_000_000
_RANK_FILE = re.compile(r"rank-(0|[1-9]\d{0,5})\.key(_secret)?")

_logger = logging.getLogger(__name__)


class CertificateFolder:
    """The certificates of one job's members. See Note [A folder of certificates].

    Thread  any
    Raises  AuthenticationError where the folder is none, or others may write to it
    """

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)
        try:
            found = os.stat(self.path)
        except OSError as error:
            raise AuthenticationError(
                f"there is no folder of certificates at {self.path!r}: {error.strerror}"
            ) from error
        if not stat.S_ISDIR(found.st_mode):
            raise AuthenticationError(f"{self.path!r} is no folder of certificates")
        _require_mode(self.path, found, 0o022)
        # Guards the two below it.
        self._ranks_lock = threading.Lock()
        self._ranks: dict[bytes, str] = {}
        self._read_at_ns = -1

    def public_key(self, member: str) -> bytes:
        """Return a member's public key in Z85 letters; that of "rank:3" is in rank-3.key.

        Raises  AuthenticationError that names the file
        """
        return self._read(f"{_stem(member)}.key", "public-key", 0o022)

    def secret_key(self, member: str) -> bytes:
        """Return the secret key of a member that runs here, in Z85 letters.

        Raises  AuthenticationError that names the file, also where others may read it, or where it
                does not belong to the member's public key
        """
        name = f"{_stem(member)}.key_secret"
        secret_key = self._read(name, "secret-key", 0o077)
        if zmq.curve_public(secret_key) != self.public_key(member):
            raise AuthenticationError(
                f"{os.path.join(self.path, name)!r} does not belong to {_stem(member)}.key beside "
                "it: the two were not made together"
            )
        return secret_key

    def read_ranks(self) -> None:
        """Read the public key of every rank that is in the folder now.

        Raises  AuthenticationError for one that cannot be read, or that two ranks have
        """
        changed_ns = os.stat(self.path).st_mtime_ns
        is_settled = time.time_ns() - changed_ns > _STAMP_NS
        ranks: dict[bytes, str] = {}
        for rank in self._ranks_with(".key"):
            key = z85.decode(self.public_key(f"rank:{rank}"))
            if key in ranks:
                raise AuthenticationError(
                    f"{self.path!r}: rank-{ranks[key]}.key and rank-{rank}.key hold one key; make "
                    "each rank its own"
                )
            ranks[key] = str(rank)
        self._ranks, self._read_at_ns = ranks, changed_ns if is_settled else -1

    def rank_of(self, public_key: bytes) -> str | None:
        """Return the rank with this 32-byte key as text, None for a stranger.

        Note    the folder is read again when it has changed: a dynamic group may grow
        """
        with self._ranks_lock:
            if public_key not in self._ranks:
                try:
                    if os.stat(self.path).st_mtime_ns != self._read_at_ns:
                        self.read_ranks()
                except (OSError, AuthenticationError) as error:
                    # Whoever was known before stays known; nobody new comes in meanwhile.
                    _logger.warning("the certificates cannot be read again: %s", error)
            return self._ranks.get(public_key)

    def first_rank_here(self) -> int:
        """Return the lowest rank whose secret key is in this folder.

        Raises  AuthenticationError where there is none
        """
        ranks = self._ranks_with(".key_secret")
        if not ranks:
            raise AuthenticationError(
                f"{self.path!r} holds no rank-N.key_secret: put there the one of each rank that "
                "runs on this machine"
            )
        return ranks[0]

    def __repr__(self) -> str:
        return f"CertificateFolder({self.path!r})"

    def _ranks_with(self, suffix: str) -> list[int]:
        found = [_RANK_FILE.fullmatch(name) for name in os.listdir(self.path)]
        return sorted(int(one[1]) for one in found if one and one[0].endswith(suffix))

    def _read(self, name: str, which: str, forbidden_mode: int) -> bytes:
        path = os.path.join(self.path, name)
        try:
            with open(path, "rb") as file:
                found, text = os.fstat(file.fileno()), file.read(_MAX_FILE_BYTES)
        except OSError as error:
            raise AuthenticationError(
                f"cannot read the certificate {path!r}: {error.strerror}; security='certs' needs "
                "NAME.key of every member (store, rank-0, rank-1, ...), and NAME.key_secret of "
                "those that run here"
            ) from error
        _require_mode(path, found, forbidden_mode)
        key = re.search(rb"^\s*" + which.encode() + rb'\s*=\s*"([!-~]{40})"\s*$', text, re.M)
        if key is None:
            raise AuthenticationError(
                f"{path!r} is no certificate: it holds no {which}; "
                "zmq.auth.create_certificates makes them"
            )
        try:
            z85.decode(key[1])
        except (KeyError, ValueError, struct.error) as error:
            raise AuthenticationError(
                f"{path!r} is damaged: its {which} is no key in Z85 letters"
            ) from error
        return key[1]


def _stem(member: str) -> str:
    return member.replace(":", "-")


def _require_mode(path: str, found: os.stat_result, forbidden: int) -> None:
    mode = stat.S_IMODE(found.st_mode)
    if mode & forbidden:
        does, wanted = ("write to", "go-w") if forbidden == 0o022 else ("read", "600")
        raise AuthenticationError(
            f"{path!r}: mode {mode:04o} lets others {does} it; run chmod {wanted} on it"
        )
    require_owner(found, repr(path))
