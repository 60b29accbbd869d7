"""The security of a store at an address: a secret (given or published), certificates, or none."""

from __future__ import annotations

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
from fastdist.distributed.sockets.addresses import packed_address, resolvable

KINDS = ("curve", "certs", "none")


class SecretSource(Enum):
    """Where the secret for a store comes from."""

    GIVEN = "given"
    PUBLISHED = "published"  # the owner of a loopback port creates it, and publishes it to its user
    CERTIFICATES = "certificates"  # no secret: each member has a key pair
    NONE = "none"


class Access(NamedTuple):
    """The security of a store, with the secret if it was given, or the certificates."""

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
    """Return the security of the store at `host`.

    Raises  AuthenticationError if `host` is on another machine and neither a secret nor
            security='none' is given, or if certificates cannot be read
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
    """Return the chosen one of KINDS, from an argument or from FASTDIST_SECURITY.

    Raises  StoreError for any other value
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

    Raises  AuthenticationError if there is none, or if it is not secure
    """
    path = certificates or environment.get("FASTDIST_CERTIFICATES")
    if not path:
        raise AuthenticationError(
            "security='certs' needs a folder of certificates: name it by certificates= or "
            "FASTDIST_CERTIFICATES"
        )
    return CertificateFolder(path)


def server_security(secret: JobSecret | None, folder: CertificateFolder | None = None) -> Security:
    """Return the security that the store's socket requires of clients."""
    if folder is not None:
        return CertificateSecurity.for_store(folder, most_connections())
    if secret is None:
        return NoSecurity()
    clients = Roster(secret, job_id(), "client", 1)
    return CurveSecurity(secret, job_id(), "store", clients, most_connections())


def most_connections() -> int:
    """Return how many connections to the store one key may make.

    All clients of a job share a key, and each client has one connection for each waiting call. So
    there is no limit per client. The limit for a key is the number of descriptors that the serving
    process can spare. Without a free descriptor the process could not even close a connection.
    """
    raise_descriptor_limit()  # the first socket does the same, but is created later
    return max(1, descriptor_limit() * 3 // 4)


def client_security(secret: JobSecret | None) -> Security:
    """Return the security by which a client proves to the store that it holds the secret."""
    if secret is None:
        return NoSecurity()
    # A client does not bind, so its roster of accepted members is empty.
    return CurveSecurity(secret, job_id(), "client:0", Roster(secret, job_id(), "nobody", 0))


def certified_client(
    folder: CertificateFolder, rank: int | None, environment: Mapping[str, str] = os.environ
) -> Security:
    """Return the security by which a member with a certificate authenticates to the store.

    If `rank` is None and the variable RANK is not set, as in a launcher, the certificate of the
    lowest rank whose secret key is in the folder is used.
    """
    if rank is None and environment.get("RANK", "").isdecimal():
        rank = int(environment["RANK"])
    return CertificateSecurity.for_store_client(
        folder, folder.first_rank_here() if rank is None else rank
    )


def job_id(environment: Mapping[str, str] = os.environ) -> str:
    """Return the name of the job: FASTDIST_JOB_ID, else "". The name is one of the values from
    which the keys of the job's members are derived.
    """
    return environment.get("FASTDIST_JOB_ID", "")


def require_host(host: str) -> str:
    """Return `host` without the brackets of an IPv6 address.

    Raises  StoreError unless `host` is a name or an address
    """
    bare = host.removeprefix("[").removesuffix("]") if isinstance(host, str) else ""
    if not re.fullmatch(r"[\w.:%-]+", bare):
        raise StoreError(f"host is {host!r}; expected the name or address of one machine")
    return bare


def numeric_address(host: str) -> str | None:
    """Return `host` as an IPv4 address, else as an IPv6 address; None if it cannot be resolved.

    Raises  StoreError for a wildcard address
    """
    try:
        found = socket.getaddrinfo(resolvable(host), None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return None
    addresses = sorted(found, key=lambda entry: entry[0] != socket.AF_INET)
    address = str(addresses[0][4][0])
    # Refuse a wildcard: clients must reach the address, and only its interface is bound.
    if not any(packed_address(address) or b"x"):
        raise StoreError(
            f"host is {host!r}, which stands for all addresses of a machine; give the one by which "
            "the workers reach the store"
        )
    return address
