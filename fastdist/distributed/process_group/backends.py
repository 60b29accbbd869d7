"""Names of backends, the devices that each backend serves, and how each one connects a group."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final, NamedTuple

from fastdist.core.errors import CollectiveError
from fastdist.core.folded_frames import folds

from .alone import Alone
from .options import Connect as Connect
from .options import Place as Place
from .transport import Transport

_GIVEN: Final = "expected one such as 'gloo', 'nccl' or 'cpu:gloo,cuda:nccl'"


class Plugin(NamedTuple):
    """A backend that a program registered."""

    creator_fn: Callable[..., Any]
    extended_api: bool


class Backend(str):
    """The lower-case name of a backend of collectives: `Backend("GLOO") == "gloo"`.

    "zmq" is fastdist's own backend for the CPU, and "gloo" is an alias of it.
    """

    __slots__ = ()
    UNDEFINED = "undefined"
    GLOO = "gloo"
    ZMQ = "zmq"
    NCCL = "nccl"
    XCCL = "xccl"
    UCC = "ucc"
    MPI = "mpi"
    FAKE = "fake"
    backend_list: ClassVar[list[str]] = [UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI, FAKE, ZMQ]
    default_device_backend_map: ClassVar[dict[str, str]] = {
        "cpu": GLOO,
        "cuda": NCCL,
        "xpu": XCCL,
        "mps": GLOO,
    }
    backend_capability: ClassVar[dict[str, list[str]]] = {
        GLOO: ["cpu", "cuda"],
        ZMQ: ["cpu", "cuda"],
        NCCL: ["cuda"],
        XCCL: ["xpu"],
        UCC: ["cpu", "cuda"],
        MPI: ["cpu", "cuda"],
        FAKE: ["cpu", "cuda"],
    }
    _plugins: ClassVar[dict[str, Plugin]] = {}

    def __new__(cls, name: str) -> str:  # type: ignore[misc]
        """Return the name in lower case.

        Raises  ValueError if the name is not a string
        """
        if not isinstance(name, str):
            raise ValueError("Backend constructor parameter must be string-ish")
        return name.lower()

    @classmethod
    def register_backend(
        cls,
        name: str,
        func: Callable[..., Any],
        extended_api: bool = False,
        devices: str | Sequence[str] | None = None,
    ) -> None:
        """Register a function that creates groups, under the name of a new backend.

        Raises  RuntimeError if a backend of that name exists

        Args:
            name: The name for `init_process_group` and `new_group`.
            func: Called with (store, rank, size, timeout), or, with extended_api, with
                (DistributedBackendOptions, pg_options). It returns an object with the methods of a
                ProcessGroup, such as an instance of a subclass, or an implementation of
                process_group.transport.Transport.
            extended_api: Whether func is called with (DistributedBackendOptions, pg_options).
            devices: The device types that the backend serves; all by default.
        """
        lower = cls(name)
        if lower in cls.backend_list:
            raise RuntimeError(f"{name.upper()} c10d backend already exists")
        kinds = [devices] if isinstance(devices, str) else list(devices or ("cpu", "cuda"))
        cls.backend_list.append(lower)
        setattr(cls, name.upper(), lower)
        cls.backend_capability[lower] = kinds
        cls._plugins[name.upper()] = Plugin(func, extended_api)
        if devices is not None:
            for kind in kinds:
                cls.default_device_backend_map.setdefault(kind, lower)


Backend.__module__ = "fastdist.distributed.distributed_c10d"


class BackendConfig:
    """The backend of each device type, from `init_process_group(backend=...)`."""

    @folds
    def __init__(self, backend: str | None) -> None:
        self.device_backend_map = devices_of(backend)

    def get_device_backend_map(self) -> dict[str, str]:
        """Return a dict from device type to backend."""
        return self.device_backend_map

    def __repr__(self) -> str:
        return ",".join(f"{kind}:{name}" for kind, name in self.device_backend_map.items())


BackendConfig.__module__ = "fastdist.distributed.distributed_c10d"


def devices_of(backend: str | None) -> dict[str, str]:
    """Return a dict from device type to backend, for the argument of `init_process_group`.

    Raises  ValueError if a backend is unknown, a pair is malformed, or a device type occurs twice
    """
    if backend is None or backend == Backend.UNDEFINED:
        gpus = Backend.GLOO if why_not_here(Backend.NCCL) else Backend.NCCL
        return {"cpu": Backend.GLOO, "cuda": gpus}
    name = Backend(backend)
    if ":" not in name:
        return dict.fromkeys(Backend.backend_capability[_known(name)], name)
    found: dict[str, str] = {}
    for pair in name.split(","):
        kind, colon, given = pair.strip().partition(":")
        if not (kind and colon and given) or ":" in given:
            raise ValueError(f"Invalid device:backend pairing: {pair!r} in {backend!r}; {_GIVEN}")
        if kind in found:
            raise ValueError(f"Duplicate device type {kind} in backend string: {backend}; {_GIVEN}")
        found[kind] = _known(given)
    return found


def _known(name: str) -> str:
    if name not in Backend.backend_capability:
        known = ", ".join(sorted(set(Backend.backend_list) - {Backend.UNDEFINED}))
        raise ValueError(f"Unknown backend {name!r}; known: {known}; {_GIVEN}")
    return name


_NOT_HERE: Final = {
    Backend.XCCL: "Distributed package doesn't have XCCL built in",
    Backend.UCC: 'there is no backend "ucc": use "gloo"',
}


def why_not_here(name: str) -> str:
    """Return the reason why groups cannot use a backend here; an empty string if they can."""
    if name == Backend.NCCL:
        from ...devices.cuda import nccl

        reason = nccl.why_missing()
        return reason and (
            f'Distributed package doesn\'t have NCCL built in: {reason}; with backend="gloo" '
            "tensors of GPUs pass through the memory of the CPU"
        )
    if name == Backend.MPI:
        from . import mpi_library

        reason = mpi_library.why_missing()
        return reason and (
            f"Distributed package doesn't have MPI built in: {reason}; workers that mpirun starts "
            'find each other with backend="gloo" as well'
        )
    return _NOT_HERE.get(name, "")


def require_here(name: str) -> None:
    """Raise RuntimeError if a backend cannot be used in this process."""
    if reason := why_not_here(name):
        raise RuntimeError(reason)


def connect_links(place: Place) -> Transport:
    """Connect the members by fastdist's own transports (distributed/links)."""
    from fastdist.distributed.links import connect

    assert place.store is not None
    transport: Transport = connect(
        place.store,
        place.rank,
        place.size,
        place.timeout.total_seconds(),
        ranks=place.ranks,
        world_size=place.world_size,
    )
    return transport


def connect_gpus(place: Place) -> Any:
    """Connect the GPUs of the members through NCCL."""
    from .nccl import NcclCarrier

    return NcclCarrier(place, connections[Backend.ZMQ])


def connect_by_mpi(place: Place) -> Transport:
    """Connect the members through MPI, which started them."""
    from .mpi import connect

    return connect(place)


def connect_nothing(place: Place) -> Transport:
    """Return a transport that sends nothing, for a group of any size in one process."""
    from .fake import connect

    return connect(place)


# Maps a backend to the function that creates its transport. Tests add entries.
connections: dict[str, Connect] = {
    Backend.ZMQ: connect_links,
    Backend.GLOO: connect_links,
    Backend.NCCL: connect_gpus,
    Backend.MPI: connect_by_mpi,
    Backend.FAKE: connect_nothing,
}
# Backends that also serve groups of one member. Such a group needs no store.
_ALSO_ALONE: Final = frozenset({Backend.NCCL, Backend.MPI})


def make_carrier(backend: str, place: Place, options: Any) -> Any:
    """Return a new group's transport, or the object that a registered backend's function returns.

    Raises  RuntimeError if the backend is not implemented; CollectiveError if the group has no
            store, so its members cannot find each other
    """
    require_here(backend)
    plugin = Backend._plugins.get(backend.upper())
    if plugin is not None:
        return _make_by_plugin(plugin, place, options)
    if place.size == 1 and backend not in _ALSO_ALONE:
        return Alone()
    needs_store = backend not in (Backend.MPI, Backend.FAKE)
    if place.store is None and place.size > 1 and needs_store:
        raise CollectiveError(f"process group {place.name!r} has no store to connect by")
    return connections[backend](place)


def _make_by_plugin(plugin: Plugin, place: Place, options: Any) -> Any:
    if not plugin.extended_api:
        return plugin.creator_fn(place.store, place.rank, place.size, place.timeout)
    from .options import DistributedBackendOptions

    about = DistributedBackendOptions(
        store=place.store,
        group_rank=place.rank,
        group_size=place.size,
        timeout=place.timeout,
        group_id=place.name,
        global_ranks_in_group=list(place.ranks),
    )
    return plugin.creator_fn(about, options)
