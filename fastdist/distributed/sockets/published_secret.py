"""A job secret that the owner of a loopback port leaves for the same user's other processes."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress

from fastdist.core.errors import AuthenticationError

from .addresses import runtime_directory
from .secret import JobSecret


def publish_secret(host: str, port: int, secret: JobSecret) -> None:
    """Leave secret where this user's processes find it by host and port; replaces an older one.

    Note    call it after the port is bound: whoever owns the port owns the file
    """
    path = _path(host, port)
    temporary = f"{path}.{os.getpid()}-{secrets.token_hex(3)}"
    try:
        file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(file, "wb") as writer:
            writer.write(secret.hex().encode())
        os.replace(temporary, path)
    except OSError as error:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        raise AuthenticationError(
            f"the secret for {host}:{port} cannot be left at {path!r}: {error.strerror}"
        ) from error


def read_published_secret(host: str, port: int) -> JobSecret | None:
    """Return the secret that the owner of this port left, None when there is none (yet).

    Note    it may be that of an earlier owner who was killed: after a failed handshake read again
    """
    path = _path(host, port)
    try:
        return JobSecret.read_file(
            path, f"the secret that the owner of {host}:{port} left in {path!r}"
        )
    except AuthenticationError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return None
        raise


def withdraw_secret(host: str, port: int, secret: JobSecret) -> None:
    """Remove the published secret, unless a later owner of the port has replaced it."""
    if read_published_secret(host, port) == secret:
        os.unlink(_path(host, port))


def _path(host: str, port: int) -> str:
    return os.path.join(runtime_directory(), f"store-{host.replace(':', '_')}-{port}.secret")
