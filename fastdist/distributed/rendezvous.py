"""How a worker gets its rank, the world size and the store: `env://`, `tcp://`, `file://`."""

from __future__ import annotations

import math
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from types import ModuleType
from typing import Any, NamedTuple, TypedDict

from fastdist.core.errors import (
    AuthenticationError,
    RendezvousError,
    StoreError,
    StoreLostError,
    StoreTimeoutError,
)
from fastdist.distributed.sockets import (
    MAX_CONNECTIONS,
    CertificateSecurity,
    CurveSecurity,
    JobSecret,
    NoSecurity,
    Security,
    knock,
    local_address_towards,
    tcp_endpoint,
)

from ..core.folded_frames import folds, private_cause
from ..core.missing import show_public
from . import store as stores
from .store import PrefixStore, Store, TCPStore
from .store.access import find_folder, job_id, security_kind
from .store.answers import Timeout, seconds
from .store.environment import (
    Assignment,
    from_env,
    may_workers_return,
    require_rank,
    restart_count,
    round_number,
    store_is_hosted_at,
)
from .store.store import ASK_S, DEFAULT_TIMEOUT
from .store.tcp_store import share_served
from .store.wait_log import WaitLog, speaks_for_node

__all__ = [
    "Assignment",
    "Rendezvous",
    "from_env",
    "register_rendezvous_handler",
    "rendezvous",
    "worker_address",
    "worker_security",
]

_PARAMETERS = ("rank", "world_size")
# The interval at which a worker that waits for the store checks whether a process listens there.
_KNOCK_S = 1.0
# How long a restarted worker waits for another worker to become the host of the store.
_COMES_WITHIN_S = 5.0
_ALL_ADDRESSES = ("*", "0.0.0.0", "::")


class Rendezvous(NamedTuple):
    """The store, this worker's rank, and the `world_size`. The caller closes the store."""

    store: Store
    rank: int
    world_size: int

    def __next__(self) -> Rendezvous:
        """Return this tuple, for `store, rank, size = next(rendezvous(url))` as in PyTorch."""
        return self


Handler = Callable[..., Iterator[Any]]
# Maps the scheme of a url to the handler that a program registered for it.
_handlers: dict[str, Handler] = {}


def register_rendezvous_handler(scheme: str, handler: Handler) -> None:
    """Register a handler for urls of one scheme in `rendezvous` and `init_process_group`.

    Raises  RuntimeError if the scheme already has a handler

    Args:
        scheme: The part of the url before "://".
        handler: Called with the url and `timeout=`; yields (store, rank, world_size).
    """
    if scheme in _handlers or scheme in ("env", "tcp", "file"):
        raise RuntimeError(f"Rendezvous handler for {scheme}:// already registered")
    _handlers[scheme] = handler


_NO_RANK = (
    "Error initializing torch.distributed using {scheme}:// rendezvous: rank parameter missing: "
    "{url!r}; add ?rank=... or the argument rank="
)


@folds
def rendezvous(
    url: str,
    rank: int = -1,
    world_size: int = -1,
    timeout: Timeout = DEFAULT_TIMEOUT,
    *,
    security: str | None = None,
    secret: JobSecret | None = None,
    certificates: str | None = None,
    takes_back: bool = False,
    shares: bool = False,
) -> Rendezvous:
    """Meet the other workers at url, and return (store, rank, world_size).

    `env://` reads the environment (from_env). `tcp://HOST:PORT` and `file:///PATH` need rank and
    world_size, as arguments or in the url (`?rank=0&world_size=4`); world size 0 means a dynamic
    group. Rank 0 serves the store, unless a launcher serves it at that port
    (FASTDIST_STORE_HOSTED=1). A restarted group does not see keys of earlier rounds. If restarted
    workers may join again (with `takes_back`, or in a dynamic group), another worker may host the
    store when rank 0 returns. With `shares`, a store that this process already serves at the
    address is reused, for example by RPC and process groups in one job. `security`, `secret` and
    `certificates` are passed to TCPStore.

    Raises  RendezvousError for wrong arguments; AuthenticationError for a wrong or missing secret;
            StoreTimeoutError if the store does not answer within timeout; StoreLostError if a
            worker that was restarted alone finds that no process hosts the store any more
    """
    scheme = url.partition(":")[0].lower()
    if scheme in _handlers:
        return Rendezvous(*next(_handlers[scheme](url, timeout=timeout)))
    given = _parameters(url, rank, world_size)
    protection: _Protection = {
        "security": security,
        "secret": secret,
        "certificates": certificates,
    }
    if scheme == "env":
        return _meet_by_environment(given, timeout, protection, takes_back, shares)
    if scheme not in ("tcp", "file"):
        raise RendezvousError(
            f"No rendezvous handler for {scheme}://: url is {url!r}; known: env://, "
            "tcp://HOST:PORT, file:///PATH"
        )
    if scheme == "file":
        _path_of(url)
    else:
        _host_and_port(url)
    if "rank" not in given:
        raise RendezvousError(_NO_RANK.format(scheme=scheme, url=url))
    rank, world_size = given["rank"], given.get("world_size", 0)
    require_rank(rank, world_size)
    if scheme == "file":
        file_store = stores.FileStore(_path_of(url), world_size, timeout, **protection)
        return Rendezvous(_of_this_round(file_store), rank, world_size)
    host, port = _host_and_port(url)
    returns, hosted = takes_back or not world_size, store_is_hosted_at(port)
    store = _tcp_store(
        host, port, rank, hosted, timeout, protection, takes_back=returns, shares=shares
    )
    return Rendezvous(_of_this_round(store), rank, world_size)


def _meet_by_environment(
    given: Mapping[str, int],
    timeout: Timeout,
    protection: _Protection,
    takes_back: bool,
    shares: bool,
) -> Rendezvous:
    place = from_env(rank=given.get("rank"), world_size=given.get("world_size"))
    store = _tcp_store(
        place.store_host,
        place.store_port,
        place.rank,
        place.store_hosted,
        timeout,
        protection,
        takes_back=takes_back or not place.world_size,
        shares=shares,
    )
    return Rendezvous(PrefixStore(place.round_name, store), place.rank, place.world_size)


def worker_address(
    store: Store, environment: Mapping[str, str] | None = None, given: str | None = None
) -> str:
    """Return the address of this machine that the worker binds and publishes; never a wildcard.

    The address is `given`, or FASTDIST_ADDRESS, or the local address from which packets to the
    store are sent, or 127.0.0.1 if the store has no server.

    Raises  RendezvousError if the given address is a wildcard

    Args:
        store: The store of the job.
        environment: The variables by name; those of this process if None.
        given: The address, if the caller knows it.
    """
    environment = os.environ if environment is None else environment
    name = "local_address" if given else "FASTDIST_ADDRESS"
    given = given or environment.get("FASTDIST_ADDRESS")
    if given:
        if given.strip("[]") in _ALL_ADDRESSES:
            raise RendezvousError(
                f"{name} is {given!r}, which is every address of this machine; expected the one by "
                "which the other workers reach it"
            )
        return given
    while isinstance(store, PrefixStore):
        store = store.underlying_store
    if isinstance(store, TCPStore):
        return local_address_towards(store.host, store.port)
    return "127.0.0.1"


def worker_security(
    store: Store,
    rank: int,
    world_size: int,
    *,
    security: str | None = None,
    certificates: str | None = None,
    max_connections: int = MAX_CONNECTIONS,
) -> Security:
    """Return the Security of a worker's sockets: the credentials, and the checks of peers.

    The credentials are the rank's certificate for "certs", and the job's secret for "curve".

    Raises  AuthenticationError if the certificate cannot be used

    Args:
        store: The store of the job.
        rank: The rank of this worker.
        world_size: The number of workers.
        security: "curve", "certs" or "none"; FASTDIST_SECURITY, or "curve", if None.
        certificates: The folder of certificates, for "certs".
        max_connections: The most connections of one peer.
    """
    kind = security_kind(security)
    if kind == "certs":
        folder = find_folder(certificates)
        return CertificateSecurity.for_rank(folder, rank, world_size, max_connections)
    secret = None if kind == "none" else store.job_secret
    if secret is None:
        return NoSecurity()
    return CurveSecurity.for_rank(secret, job_id(), rank, world_size, max_connections)


def _of_this_round(store: Store) -> Store:
    """Return the store with the prefix of this round if the group was restarted."""
    number = round_number()
    return PrefixStore(f"round.{number}", store) if number else store


class _Protection(TypedDict):
    """The security arguments of a store."""

    security: str | None
    secret: JobSecret | None
    certificates: str | None


def _tcp_store(
    host: str,
    port: int,
    rank: int,
    hosted: bool,
    timeout: Timeout,
    protection: _Protection,
    *,
    takes_back: bool,
    shares: bool,
) -> TCPStore:
    if rank == 0 and not hosted:
        if shares and (shared := share_served(host, port, timeout, rank=rank, **protection)):
            return shared
        way: dict[str, Any] = {"rank": rank, **protection}
        try:
            return TCPStore(host, port, is_master=True, timeout=timeout, goes_on=takes_back, **way)
        except StoreError as error:
            if takes_back:
                with suppress(StoreError, AuthenticationError):
                    store = TCPStore(host, port, timeout=ASK_S, **way)
                    store.set_timeout(timeout)
                    return store
            raise _second_host(host, port, error, protection) from error
    whose = "the launcher's" if hosted else "rank 0's"
    looks_for_host = takes_back and not hosted
    with WaitLog(f"rank {rank}", seconds(timeout)) as line:
        late = StoreTimeoutError("")
        tell = line.log_now_and_again if looks_for_host else line.tell
        for pause_s in line.pauses(_KNOCK_S if looks_for_host else math.inf):
            try:
                store = TCPStore(host, port, timeout=pause_s, rank=rank, **protection)
            except StoreTimeoutError as error:
                late = error
                gone = _why_gone(host, port, line.waited_s) if looks_for_host else ""
                # The host of the store is missing. One worker per node logs this, but never rank 0
                # if it is the host.
                if speaks_for_node(rank, () if hosted else (0,)):
                    tell(f"{whose} store at {host}:{port}{gone}")
            else:
                store.set_timeout(timeout)
                return store
        host, missing = ("the launcher", []) if hosted else ("rank 0", ["0"])
        raise StoreTimeoutError(
            f"{late}; {host}, which hosts it, is missing; waited {line.waited_s:.4g} s", missing
        ) from late


def _why_gone(host: str, port: int, waited_s: float) -> str:
    """Return a clause with the reason if no process listens at the address of rank 0's store;
    otherwise return "".

    Raises  StoreLostError if this worker was restarted alone: the store that it used before is lost
    """
    if knock(tcp_endpoint(host, port), time.monotonic() + _KNOCK_S) is not False:
        return ""
    why = (
        "; nobody listens there: if rank 0, which hosts it, was lost, and no other worker of its "
        "machine is left to host it instead, start rank 0 again, or all workers"
    )
    if may_workers_return() and restart_count() and waited_s >= _COMES_WITHIN_S:
        raise StoreLostError(
            f"the store of this job, at {host}:{port}, is gone with its host, rank 0, and this "
            f"worker, which was started again, cannot find the others{why}"
        )
    return why


def _second_host(host: str, port: int, error: StoreError, protection: _Protection) -> StoreError:
    """If another worker already hosts the job's store, notify that worker, and return an error that
    names it; otherwise return `error`.

    The host must prove that it belongs to this job: a host of another job is not named.
    """
    line = (
        "a second worker that says it is rank 0, which hosts the store, was refused: process "
        f"{os.getpid()} on {socket.gethostname()}"
    )
    try:
        with TCPStore(host, port, timeout=ASK_S, rank=0, **protection) as first:
            who, *_ = first.query_host(line)
    except (StoreError, AuthenticationError):
        return error
    return StoreError(
        f"{error}; {who}, hosts the store of this job there, and was notified of this one"
    )


def _parameters(url: str, rank: int, world_size: int) -> dict[str, int]:
    """Return the rank and world_size that are given in the url or as arguments."""
    arguments = {"rank": rank, "world_size": world_size}
    given = {name: value for name, value in arguments.items() if value != -1}
    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, int):
            raise RendezvousError(f"`{name}` must be an integer. {value} is {type(value).__name__}")
        if value < 0:
            raise RendezvousError(f"{name} is {value!r}; expected a number, 0 or more")
    for name, text in _query_of(url):
        if name == "use_libuv":
            continue  # selects a transport in PyTorch
        if name not in _PARAMETERS:
            raise RendezvousError(f"{url!r}: unknown {name!r}; known: {', '.join(_PARAMETERS)}")
        if not (text.isascii() and text.isdecimal()):
            raise RendezvousError(f"{url!r}: {name} is {text!r}; expected a number, 0 or more")
        if given.get(name, int(text)) != int(text):
            raise RendezvousError(
                f"{name} is {given[name]} as an argument and {text} in {url!r}; give it once"
            )
        given[name] = int(text)
    return given


def _query_of(url: str) -> list[tuple[str, str]]:
    if "?" not in url:
        return []
    from urllib.parse import parse_qsl, urlsplit  # 0.4 MB, which workers with env:// do not need

    return parse_qsl(urlsplit(url).query, keep_blank_values=True)


def _path_of(url: str) -> str:
    from urllib.parse import unquote, urlsplit

    parts = urlsplit(url)
    if parts.netloc or not parts.path:
        missing = "" if parts.path else "path missing: "
        raise RendezvousError(f"{missing}url is {url!r}; expected file:///PATH, with three slashes")
    return unquote(parts.path)


def _host_and_port(url: str) -> tuple[str, int]:
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    try:
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise RendezvousError(
            f"url is {url!r}: {error}; expected tcp://HOST:PORT"
        ) from private_cause(error)
    if not host or not port:
        missing = "port number missing: " if host else ""
        raise RendezvousError(f"{missing}url is {url!r}; expected tcp://HOST:PORT")
    return host, port


class _CallableModule(ModuleType):
    """Makes this module callable: in PyTorch `distributed.rendezvous` is a module and a
    function.
    """

    @folds
    def __call__(self, url: str, *args: Any, **named: Any) -> Rendezvous:
        return rendezvous(url, *args, **named)


sys.modules[__name__].__class__ = _CallableModule

show_public(__name__)
