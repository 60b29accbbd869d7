"""Key pairs of members in a folder of files, for jobs whose ranks must not share a secret."""

# Note [A folder of certificates]
# The files have the format of pyzmq's create_certificates(folder, name). NAME.key is public, and
# every machine has the public file of every member. NAME.key_secret exists only on the machine
# where the member NAME runs. The names are `store`, `rank-0`, `rank-1` and so on. The public files
# determine which members are admitted, so no other user may be able to write them. No other user
# may be able to read the secret files.
#
# Note [What the folder says now counts]
# If a key is removed or replaced, it admits nobody after that. So each admission checks, by a stat
# of the file with the key, that the file exists and is unchanged. The time stamp of the folder
# would not suffice, because it does not change when a file is written in place. A file may have
# been read so soon after a change that a later change could have the same stamp. Such a file is
# read again at the next admission.

from __future__ import annotations

import logging
import os
import re
import stat
import struct
import threading
import time
from typing import NamedTuple

import zmq
from zmq.utils import z85

from fastdist.core.errors import AuthenticationError

from .secret import require_owner

_MAX_FILE_BYTES = 64 * 1024
# Two changes within this time may have the same time stamp.
_STAMP_NS = 1_000_000_000
_RANK_FILE = re.compile(r"rank-(0|[1-9]\d{0,5})\.key(_secret)?")

_logger = logging.getLogger(__name__)


class _Certificate(NamedTuple):
    """A rank's public key and its file's stamp; the stamp is None if the file had just changed."""

    key: bytes
    stamp: tuple[int, ...] | None


class CertificateFolder:
    """The certificates of one job's members. See Note [A folder of certificates].

    Thread  any
    Raises  AuthenticationError if there is no such folder, or if others may write to it
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
            raise AuthenticationError(f"{self.path!r} is not a folder of certificates")
        _require_mode(self.path, found, 0o022)
        # Guards the three attributes below.
        self._ranks_lock = threading.Lock()
        self._certificates: dict[int, _Certificate] = {}
        self._ranks: dict[bytes, int] = {}
        self._trouble = ""

    def public_key(self, member: str) -> bytes:
        """Return a member's public key in Z85 letters; the key of "rank:3" is in rank-3.key.

        Raises  AuthenticationError naming the file
        """
        return self._read(f"{_stem(member)}.key", "public-key", 0o022)[0]

    def secret_key(self, member: str) -> bytes:
        """Return the secret key of a member that runs here, in Z85 letters.

        Raises  AuthenticationError naming the file, if the file cannot be read, if others may read
                it, or if the key does not match the member's public key
        """
        name = f"{_stem(member)}.key_secret"
        secret_key, _ = self._read(name, "secret-key", 0o077)
        if zmq.curve_public(secret_key) != self.public_key(member):
            raise AuthenticationError(
                f"{os.path.join(self.path, name)!r} does not belong to {_stem(member)}.key next "
                "to it: the two were not made together"
            )
        return secret_key

    def read_ranks(self) -> None:
        """Read the public keys of all ranks in the folder.

        Raises  AuthenticationError for a key that cannot be read, or that two ranks share
        """
        with self._ranks_lock:
            trouble = self._look()
        if trouble:
            raise AuthenticationError(trouble[0])

    def rank_of(self, public_key: bytes) -> str | None:
        """Return the rank with this 32-byte key as text; None for a stranger.

        See Note [What the folder says now counts].
        """
        with self._ranks_lock:
            rank = self._ranks.get(public_key)
            if rank is None or not self._is_as_read(rank):
                trouble = "; ".join(self._look())
                if trouble and trouble != self._trouble:
                    _logger.warning("some certificates cannot be used: %s", trouble)
                self._trouble = trouble
                rank = self._ranks.get(public_key)
            return None if rank is None else str(rank)

    def _look(self) -> list[str]:
        """Read the changed files; return the reasons why some cannot be used."""
        trouble = []
        try:
            _require_mode(self.path, os.stat(self.path), 0o022)
            ranks = self._ranks_with(".key")
        except (OSError, AuthenticationError) as error:
            trouble.append(str(error))
            ranks = list(self._certificates)  # no new ranks are admitted meanwhile
        certificates: dict[int, _Certificate] = {}
        owners: dict[bytes, list[int]] = {}
        for rank in ranks:
            try:
                certificates[rank] = (
                    self._certificates[rank] if self._is_as_read(rank) else self._certificate(rank)
                )
            except AuthenticationError as error:
                trouble.append(str(error))
            else:
                owners.setdefault(certificates[rank].key, []).append(rank)
        for one, *others in owners.values():
            if others:
                # A key that two ranks share identifies neither of them.
                trouble.append(
                    f"{self.path!r}: rank-{one}.key and rank-{others[0]}.key hold one key; make "
                    "each rank its own"
                )
        self._certificates = certificates
        self._ranks = {key: ranks[0] for key, ranks in owners.items() if len(ranks) == 1}
        return trouble

    def _certificate(self, rank: int) -> _Certificate:
        key, found = self._read(f"rank-{rank}.key", "public-key", 0o022)
        is_settled = time.time_ns() - max(found.st_mtime_ns, found.st_ctime_ns) > _STAMP_NS
        return _Certificate(z85.decode(key), _stamp(found) if is_settled else None)

    def _is_as_read(self, rank: int) -> bool:
        known = self._certificates.get(rank)
        if known is None or known.stamp is None:
            return False
        try:
            return _stamp(os.stat(os.path.join(self.path, f"rank-{rank}.key"))) == known.stamp
        except OSError:
            return False

    def first_rank_here(self) -> int:
        """Return the lowest rank whose secret key is in this folder.

        Raises  AuthenticationError if there is none
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

    def _read(self, name: str, which: str, forbidden_mode: int) -> tuple[bytes, os.stat_result]:
        path = os.path.join(self.path, name)
        try:
            with open(path, "rb") as file:
                found, text = os.fstat(file.fileno()), file.read(_MAX_FILE_BYTES)
        except OSError as error:
            raise AuthenticationError(
                f"cannot read the certificate {path!r}: {error.strerror}; security='certs' needs "
                "NAME.key of every member (store, rank-0, rank-1, ...), and NAME.key_secret of "
                "the members that run here"
            ) from error
        _require_mode(path, found, forbidden_mode)
        key = re.search(rb"^\s*" + which.encode() + rb'\s*=\s*"([!-~]{40})"\s*$', text, re.M)
        if key is None:
            raise AuthenticationError(
                f"{path!r} is not a certificate: it has no {which}; zmq.auth.create_certificates "
                "makes them"
            )
        try:
            z85.decode(key[1])
        except (KeyError, ValueError, struct.error) as error:
            raise AuthenticationError(
                f"{path!r} is damaged: its {which} is not a key in Z85 letters"
            ) from error
        return key[1], found


def _stamp(found: os.stat_result) -> tuple[int, ...]:
    return (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


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
