"""How the store at an address is protected: by a given secret, by one its owner leaves, or not."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping
from enum import Enum

from fastdist.core.errors import AuthenticationError, StoreError
from fastdist.distributed.sockets import (
    CurveSecurity,
    JobSecret,
    NoSecurity,
    Roster,
    Security,
    is_loopback,
)

_KINDS = ("curve", "none")


class SecretSource(Enum):
    """Where the secret for a store comes from."""

    GIVEN = "given"
    PUBLISHED = "published"  # the owner of the loopback port makes it and leaves it to its user
    NONE = "none"


def choose_source(
    host: str,
    security: str | None,
    secret: JobSecret | None,
    environment: Mapping[str, str] = os.environ,
) -> tuple[SecretSource, JobSecret | None]:
    """Return how the store at host is protected, and the secret where it is given.

    Raises  AuthenticationError when host is not this machine alone, no secret is given, and
            security='none' is not spelled out
    """
    kind = security or environment.get("FASTDIST_SECURITY") or "curve"
    if kind not in _KINDS:
        name = "security" if security else "FASTDIST_SECURITY"
        raise StoreError(f"{name} is {kind!r}; known: {', '.join(_KINDS)}")
    if kind == "none":
        return SecretSource.NONE, None
    secret = secret or JobSecret.from_environment(environment)
    if secret is not None:
        return SecretSource.GIVEN, secret
    if is_loopback(host):
        return SecretSource.PUBLISHED, None
    raise AuthenticationError(
        f"no job secret for the store at {host!r}, which others can reach: give all members the "
        "same FASTDIST_JOB_SECRET_FILE (made by `openssl rand -hex 32`, mode 0600) or "
        "FASTDIST_JOB_SECRET, or spell out security='none' (FASTDIST_SECURITY=none)"
    )


def server_security(secret: JobSecret | None) -> Security:
    """Return what the store's own socket asks of those who connect."""
    if secret is None:
        return NoSecurity()
    return CurveSecurity(secret, job_id(), "store", Roster(secret, job_id(), "client", 1))


def client_security(secret: JobSecret | None) -> Security:
    """Return how a client of the store proves that it holds the secret."""
    if secret is None:
        return NoSecurity()
    # A client binds nothing, so nobody is on its roster.
    return CurveSecurity(secret, job_id(), "client:0", Roster(secret, job_id(), "nobody", 0))


def job_id(environment: Mapping[str, str] = os.environ) -> str:
    """Return the name of the job, which goes into its keys: FASTDIST_JOB_ID, else empty."""
    return environment.get("FASTDIST_JOB_ID", "")


def require_host(host: str) -> str:
    """Return host without the brackets of an IPv6 address.

    Raises  StoreError unless it is a name or an address
    """
    bare = host.removeprefix("[").removesuffix("]") if isinstance(host, str) else ""
    # No wildcard: where a socket is bound, others must be able to go.
    if not re.fullmatch(r"[\w.:%-]+", bare):
        raise StoreError(f"host is {host!r}; expected the name or address of one machine")
    return bare


def numeric_address(host: str) -> str | None:
    """Return host as an IPv4 address, else as an IPv6 one, None when no name server knows it."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return None
    addresses = sorted(found, key=lambda entry: entry[0] != socket.AF_INET)
    return str(addresses[0][4][0])
