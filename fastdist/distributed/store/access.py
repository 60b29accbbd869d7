"""How the store at an address is protected: by a secret, given or left, by certificates, or not."""

from __future__ import annotations

import ipaddress
import os
import re
import socket
from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from fastdist.core.errors import AuthenticationError, StoreError
from fastdist.distributed.sockets import (
    CertificateFolder,
    CertificateSecurity,
    CurveSecurity,
    JobSecret,
    NoSecurity,
    Roster,
    Security,
    descriptor_limit,
    is_loopback,
    raise_descriptor_limit,
)
from fastdist.distributed.sockets.addresses import resolvable

KINDS = ("curve", "certs", "none")


class SecretSource(Enum):
    """Where the secret for a store comes from."""

    GIVEN = "given"
    PUBLISHED = "published"  # the owner of the loopback port makes it and leaves it to its user
    CERTIFICATES = "certificates"  # there is none: each member has a key pair
    NONE = "none"


class Access(NamedTuple):
    """How a store is protected, with the secret where it is given, or the certificates."""

    source: SecretSource
    secret: JobSecret | None = None
    folder: CertificateFolder | None = None


def choose_access(
    host: str,
    security: str | None,
    secret: JobSecret | None,
    certificates: str | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Access:
    """Return how the store at host is protected.

    Raises  AuthenticationError when host is not this machine alone, no secret is given, and
            security='none' is not spelled out; for certificates that cannot be read
    """
    kind = security_kind(security, environment)
    if kind == "none":
        return Access(SecretSource.NONE)
    if kind == "certs":
        return Access(SecretSource.CERTIFICATES, None, find_folder(certificates, environment))
    secret = secret or JobSecret.from_environment(environment)
    if secret is not None:
        return Access(SecretSource.GIVEN, secret)
    if is_loopback(host):
        return Access(SecretSource.PUBLISHED)
    raise AuthenticationError(
        f"no job secret for the store at {host!r}, which others can reach: give all members the "
        "same FASTDIST_JOB_SECRET_FILE (made by `openssl rand -hex 32`, mode 0600) or "
        "FASTDIST_JOB_SECRET, or spell out security='none' (FASTDIST_SECURITY=none)"
    )


def security_kind(security: str | None, environment: Mapping[str, str] = os.environ) -> str:
    """Return which of KINDS is chosen, by an argument or by FASTDIST_SECURITY.

    Raises  StoreError for another
    """
    kind = security or environment.get("FASTDIST_SECURITY") or "curve"
    if kind not in KINDS:
        name = "security" if security else "FASTDIST_SECURITY"
        raise StoreError(f"{name} is {kind!r}; known: {', '.join(KINDS)}")
    return kind


def find_folder(
    certificates: str | None, environment: Mapping[str, str] = os.environ
) -> CertificateFolder:
    """Return the folder of certificates that is given, or that FASTDIST_CERTIFICATES names.

    Raises  AuthenticationError where there is none, or it cannot be trusted
    """
    path = certificates or environment.get("FASTDIST_CERTIFICATES")
    if not path:
        raise AuthenticationError(
            "security='certs' needs a folder of certificates: name it by certificates= or "
            "FASTDIST_CERTIFICATES"
        )
    return CertificateFolder(path)


def server_security(secret: JobSecret | None, folder: CertificateFolder | None = None) -> Security:
    """Return the security that the store's own socket requires of clients."""
    if folder is not None:
        return CertificateSecurity.for_store(folder, most_connections())
    if secret is None:
        return NoSecurity()
    clients = Roster(secret, job_id(), "client", 1)
    return CurveSecurity(secret, job_id(), "store", clients, most_connections())


def most_connections() -> int:
    """Return how many connections with the store may be made by one key.

    All clients of a job share a key, and each has one connection for each call that waits. So there
    is no number for one of them; the bound is what the process that serves can spare. Where it had
    no descriptor left, it could not even hang up.
    """
    raise_descriptor_limit()  # as the first socket will, which is still to come
    return max(1, descriptor_limit() * 3 // 4)


def client_security(secret: JobSecret | None) -> Security:
    """Return how a client of the store proves that it holds the secret."""
    if secret is None:
        return NoSecurity()
    # A client binds nothing, so nobody is on its roster.
    return CurveSecurity(secret, job_id(), "client:0", Roster(secret, job_id(), "nobody", 0))


def certified_client(
    folder: CertificateFolder, rank: int | None, environment: Mapping[str, str] = os.environ
) -> Security:
    """Return how a member with a certificate proves to the store who it is.

    Without a rank, here or in RANK, it is the lowest one whose secret key is in the folder: so a
    launcher speaks, which has no rank.
    """
    if rank is None and environment.get("RANK", "").isdecimal():
        rank = int(environment["RANK"])
    return CertificateSecurity.for_store_client(
        folder, folder.first_rank_here() if rank is None else rank
    )


def job_id(environment: Mapping[str, str] = os.environ) -> str:
    """Return the name of the job, which goes into its keys: FASTDIST_JOB_ID, else empty."""
    return environment.get("FASTDIST_JOB_ID", "")


def require_host(host: str) -> str:
    """Return host without the brackets of an IPv6 address.

    Raises  StoreError unless it is a name or an address
    """
    bare = host.removeprefix("[").removesuffix("]") if isinstance(host, str) else ""
    if not re.fullmatch(r"[\w.:%-]+", bare):
        raise StoreError(f"host is {host!r}; expected the name or address of one machine")
    return bare


def numeric_address(host: str) -> str | None:
    """Return host as an IPv4 address, else as an IPv6 one, None when no name server knows it.

    Raises  StoreError where it stands for all addresses
    """
    try:
        found = socket.getaddrinfo(resolvable(host), None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return None
    addresses = sorted(found, key=lambda entry: entry[0] != socket.AF_INET)
    address = str(addresses[0][4][0])
    # No wildcard: where a socket is bound, others must be able to go, and nobody else need be.
    if _is_wildcard(address):
        raise StoreError(
            f"host is {host!r}, which stands for all addresses of a machine; give the one by which "
            "the workers reach the store"
        )
    return address


def _is_wildcard(address: str) -> bool:
    found = ipaddress.ip_address(address)
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return (mapped or found).is_unspecified
