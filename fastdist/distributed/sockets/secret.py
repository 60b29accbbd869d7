"""The secret that the members of a job share, and its sources."""

from __future__ import annotations

import binascii
import os
import stat
from collections.abc import Mapping
from typing import NoReturn

from fastdist.core.errors import AuthenticationError
from fastdist.system.digest import hmac_sha256

SECRET_BYTES = 32
_HEXADECIMAL = frozenset("0123456789abcdefABCDEF")


class JobSecret:
    """32 random bytes. Its repr shows nothing derived from them, and it cannot be pickled.

    `origin` describes the source of the secret, for error messages.
    """

    __slots__ = ("_secret", "origin")

    def __init__(self, secret: bytes, origin: str) -> None:
        if len(secret) != SECRET_BYTES:
            raise AuthenticationError(
                f"{origin}: the job secret has {len(secret)} bytes, expected {SECRET_BYTES} (try "
                f"`openssl rand -hex {SECRET_BYTES}`)"
            )
        self._secret = secret
        self.origin = origin

    @classmethod
    def generate(cls, origin: str = "made by this process") -> JobSecret:
        """Return a new secret."""
        return cls(os.urandom(SECRET_BYTES), origin)

    @classmethod
    def parse(cls, text: str, origin: str) -> JobSecret:
        """Return the secret that is encoded in `text` as 64 hexadecimal digits or as base64.

        Raises  AuthenticationError that names `origin` and never quotes `text`
        """
        text = text.strip()
        try:
            if len(text) == 2 * SECRET_BYTES and _HEXADECIMAL.issuperset(text):
                return cls(bytes.fromhex(text), origin)
            standard = text.replace("-", "+").replace("_", "/").rstrip("=")
            padded = standard + "=" * (-len(standard) % 4)
            return cls(binascii.a2b_base64(padded, strict_mode=True), origin)
        except (binascii.Error, ValueError) as error:
            raise AuthenticationError(
                f"{origin}: not a job secret; expected {SECRET_BYTES} random bytes as 64 "
                f"hexadecimal digits or as base64, got {len(text)} characters of something else "
                f"(try `openssl rand -hex {SECRET_BYTES}`)"
            ) from (None if isinstance(error, binascii.Error) else error)

    @classmethod
    def read_file(cls, path: str, origin: str | None = None) -> JobSecret:
        """Return the secret in a file that only this user can read.

        Raises  AuthenticationError if others may read it, or if neither this user nor root owns it
        """
        origin = origin or f"file {path!r}"
        try:
            with open(path, "rb", opener=_open_without_waiting) as file:
                found, text = os.fstat(file.fileno()), file.read(1024)
        except OSError as error:
            raise AuthenticationError(
                f"{origin}: cannot read the job secret: {error.strerror}"
            ) from error
        _require_private(found, origin)
        return cls.parse(text.decode("ascii", errors="replace"), origin)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> JobSecret | None:
        """Return the secret of FASTDIST_JOB_SECRET_FILE or FASTDIST_JOB_SECRET; None if unset."""
        path, text = (
            environment.get("FASTDIST_JOB_SECRET_FILE"),
            environment.get("FASTDIST_JOB_SECRET"),
        )
        if path and text:
            raise AuthenticationError(
                "FASTDIST_JOB_SECRET_FILE and FASTDIST_JOB_SECRET are both set; "
                "unset one (the file is the safer one)"
            )
        if path:
            return cls.read_file(path, f"FASTDIST_JOB_SECRET_FILE={path}")
        if text:
            return cls.parse(text, "FASTDIST_JOB_SECRET")
        return None

    def hex(self) -> str:
        """Return the secret itself; use it only for a child's environment or a private file."""
        return self._secret.hex()

    def derive(self, *labels: str) -> bytes:
        """Return 32 bytes that only holders of this secret can compute for these labels.

        Source  RFC 5869, HKDF with SHA-256
        """
        # Each label is preceded by its length: ("a", "bc") and ("ab", "c") give different keys.
        encoded = [label.encode() for label in labels]
        info = b"".join(len(label).to_bytes(4, "big") + label for label in encoded)
        extracted = hmac_sha256(b"fastdist job secret v1", self._secret)
        return hmac_sha256(extracted, info + b"\1")

    def __eq__(self, other: object) -> bool:
        # Do not compare the secrets directly: the time of the comparison would reveal how much of a
        # guessed secret is right.
        return isinstance(other, JobSecret) and self.derive("equal") == other.derive("equal")

    def __hash__(self) -> int:
        return hash(self.derive("hash"))

    def __repr__(self) -> str:
        return f"JobSecret({self.origin})"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a JobSecret does not pickle: give workers FASTDIST_JOB_SECRET_FILE instead"
        )


def _open_without_waiting(path: str, flags: int) -> int:
    # Without O_NONBLOCK the open of a named pipe would block until another process writes to it.
    return os.open(path, flags | os.O_NONBLOCK)


def _require_private(found: os.stat_result, origin: str) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise AuthenticationError(f"{origin}: not a regular file")
    mode = stat.S_IMODE(found.st_mode)
    if mode & 0o077:
        raise AuthenticationError(
            f"{origin}: mode {mode:04o} lets others read the job secret; run chmod 600 on it"
        )
    require_owner(found, origin)


def require_owner(found: os.stat_result, origin: str) -> None:
    """Raise AuthenticationError unless a file belongs to this user or to root."""
    if found.st_uid not in (os.getuid(), 0):
        raise AuthenticationError(
            f"{origin}: belongs to user {found.st_uid}, expected this user ({os.getuid()}) or root"
        )
