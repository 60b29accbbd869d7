"""A job secret that the owner of a loopback port publishes to the same user's other processes."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress

from fastdist.core.errors import AuthenticationError

from .addresses import runtime_directory
from .secret import JobSecret

_FIRST, _LAST = "store-", ".secret"


def publish_secret(host: str, port: int, secret: JobSecret) -> int:
    """Publish `secret` for a host and port to this user's processes; it replaces an older secret.

    Return a descriptor for withdraw_secret: its lock shows that the owner lives. Secrets of owners
    that were killed are removed.

    Raises  AuthenticationError if the file cannot be written
    Note    call this after the port is bound: the owner of the port owns the file
    """
    path = _path(host, port)
    temporary = f"{path}.{os.getpid()}-{os.urandom(3).hex()}"
    published = -1
    try:
        _remove_orphans(os.path.dirname(path))
        published = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(published, fcntl.LOCK_EX)
        os.write(published, secret.hex().encode())
        os.replace(temporary, path)
    except OSError as error:
        if published >= 0:
            os.close(published)
            with suppress(FileNotFoundError):
                os.unlink(temporary)
        raise AuthenticationError(
            f"the secret for {host}:{port} cannot be left at {path!r}: {error.strerror}"
        ) from error
    return published


def read_published_secret(host: str, port: int) -> JobSecret | None:
    """Return the secret that the owner of this port published; None if there is none (yet).

    Note    an earlier owner that was killed may have published the secret: read the secret again
            after a failed handshake
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


def withdraw_secret(host: str, port: int, published: int) -> None:
    """Remove the published secret, unless a later owner of the port has replaced it."""
    try:
        _remove_if_same(_path(host, port), published)
    finally:
        os.close(published)


def _path(host: str, port: int) -> str:
    name = f"{_FIRST}{host.replace(':', '_')}-{port}{_LAST}"
    return os.path.join(runtime_directory(), name)


def _remove_orphans(folder: str) -> None:
    for name in os.listdir(folder):
        if not (name.startswith(_FIRST) and name.endswith(_LAST)):
            continue
        path = os.path.join(folder, name)
        try:
            file = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:
            continue  # not a file of this package
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove_if_same(path, file)
        except BlockingIOError:
            pass  # the owner lives
        finally:
            os.close(file)


def _remove_if_same(path: str, file: int) -> None:
    with suppress(FileNotFoundError):
        if not _is_same(path, file):
            return
        # A later owner may replace the file after this check. So rename the file, check it again,
        # and put it back if it is another one. It may be missing for a moment, because a reader
        # that finds no secret tries again.
        taken = f"{path}.{os.getpid()}-{os.urandom(3).hex()}"
        os.rename(path, taken)
        if not _is_same(taken, file):
            with suppress(FileExistsError):
                os.link(taken, path)
        os.unlink(taken)


def _is_same(path: str, file: int) -> bool:
    return os.path.samestat(os.stat(path), os.fstat(file))
