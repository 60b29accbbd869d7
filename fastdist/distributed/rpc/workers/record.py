"""A worker's record: the description of one life of one rank, for all other workers."""

from __future__ import annotations

import json
import os
import re
import socket
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, fields
from typing import Any, Final, Protocol

from fastdist.core.device import Device
from fastdist.core.errors import RpcError
from fastdist.core.version import __version__
from fastdist.distributed.pipe.host import boot_id, network_namespace, pid_namespace, process_start
from fastdist.distributed.pipe.pipe import MAX_OWN_LANES
from fastdist.distributed.restarts import restart_count
from fastdist.distributed.sockets import descriptor_limit
from fastdist.system.foreign_text import one_line

from ..message.ids import MAX_WORKER_ID
from ..message.layout import VERSION
from ..message.limits import DEFAULT, Limits, limits_of
from ..torch_names.argument_errors import constructor
from .tree import FAN_OUT

_NAME: Final = re.compile(r"^[A-Za-z0-9\-_:]*$")
_MAX_NAME: Final = 128


@dataclass(frozen=True, slots=True, init=False)
class WorkerInfo:
    """A worker's name and id; faster as the target of a call than the name.

    Raises  TypeError for a name that is not a string, or an id that is not a number; RpcError for a
            name that is not valid for a worker
    Note    frozen, so that it can be a key of a dict

    Args:
        name: The name of the worker.
        id: The rank of the worker in its group.

    Example:
        >>> rpc.WorkerInfo("worker1", 1)
        WorkerInfo(id=1, name=worker1)
    """

    name: str
    id: int

    @constructor("fastdist.distributed.rpc.WorkerInfo(name: str, id: int)")
    def __init__(self, name: str, id: int) -> None:
        if not isinstance(name, str) or isinstance(id, bool) or not isinstance(id, int):
            raise TypeError(f"name is {name!r} and id is {id!r}; expected a text and a number")
        if not -1 <= id <= MAX_WORKER_ID:
            raise TypeError(f"id is {id}; expected 0 to {MAX_WORKER_ID}")
        require_name(name)
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "id", id)

    def __repr__(self) -> str:
        return f"WorkerInfo(id={self.id}, name={self.name})"


# The advice in errors about two versions in one job.
SAME_VERSION: Final = "install the same fastdist on all machines of the job"


class Named(Protocol):
    """Any object with the name and the id of a worker."""

    @property
    def name(self) -> str: ...
    @property
    def id(self) -> int: ...


def in_words(worker: Named) -> str:
    """Return the text for a worker in messages: worker 'trainer1' (rank 1)."""
    return f"worker {worker.name!r} (rank {worker.id})"


def did_you_mean(name: object, known: Collection[str]) -> str:
    """Return `; did you mean ...?` if the name resembles a known one with the same digits."""
    if not isinstance(name, str):
        return ""
    from difflib import get_close_matches  # imported only after a mistake

    # Digits must match: worker3 in a group that ends at worker2 is a wrong number, not a typo.
    digits = re.sub(r"\D", "", name)
    alike = [one for one in known if re.sub(r"\D", "", one) == digits]
    near = get_close_matches(name, alike, 1)
    return f"; did you mean {near[0]}?" if near else ""


def hint_for(name: object, known: Collection[str], world_size: int) -> str:
    """Return a hint for an unknown name: a similar known name, or how to start more workers."""
    alone = "; world_size is 1: `fastdist run -n 2 PROGRAM` starts two workers"
    return did_you_mean(name, known) or (alone if world_size == 1 else "")


@dataclass(frozen=True, slots=True)
class Record:
    """The description that a member publishes for all others.

    `incarnation` is new in each life of a rank, so that messages of an earlier life are recognised.
    `restarts` is whether this member of a static group accepts another life of a lost member's
    rank. `restart_count` is the number of earlier lives of this member's rank.
    """

    name: str
    rank: int
    world_size: int
    incarnation: int
    addresses: dict[str, str]
    device_maps: dict[str, dict[str, str]]
    security: str
    pid: int = field(default_factory=os.getpid)
    process_start: int | None = field(default_factory=lambda: process_start(os.getpid()))
    boot_id: str = field(default_factory=boot_id)
    pid_namespace: str = field(default_factory=pid_namespace)
    network_namespace: str = field(default_factory=network_namespace)
    host: str = field(default_factory=socket.gethostname)
    version: str = __version__
    wire_version: int = VERSION
    descriptors: int = field(default_factory=descriptor_limit)
    limits: Limits = DEFAULT
    restarts: bool = False
    restart_count: int = field(default_factory=restart_count)

    @property
    def info(self) -> WorkerInfo:
        """The name and the id of this worker."""
        return WorkerInfo(self.name, self.rank)

    @property
    def whereabouts(self) -> str:
        """The identity and the address of this worker, as text for error messages."""
        address = self.addresses.get("uv") or next(iter(self.addresses.values()), "no address")
        there = f"process {self.pid} on {one_line(self.host, 100)}, at {one_line(address, 300)}"
        return f"{one_line(repr(self.name))} (rank {self.rank}), {there}"

    def encode(self) -> bytes:
        """Return the record as bytes for the store."""
        return json.dumps({**_fields_of(self), "limits": _fields_of(self.limits)}).encode()

    @classmethod
    def decode(cls, encoded: bytes) -> Record:
        """Return the record that a member stored.

        Raises  RpcError for invalid bytes; the error names both versions if the bytes were written
                by a member with another version of fastdist
        """
        told: Any = None
        try:
            told = json.loads(encoded)
            record = cls(**{**told, "limits": limits_of(**told["limits"])})
            _require_types(record)
            return record
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            theirs = told.get("version") if isinstance(told, dict) else None
            if isinstance(theirs, str) and theirs != __version__:
                raise RpcError(
                    f"worker {one_line(repr(told.get('name')), 100)} has fastdist "
                    f"{one_line(theirs, 100)}, this worker has {__version__}; {SAME_VERSION}"
                ) from error
            raise RpcError(
                f"the store holds {encoded[:80]!r} instead of the record of a worker"
            ) from error

    def shares_host_with(self, other: Record) -> bool:
        """Return whether both workers run on one machine and share its network.

        Note    containers with separate networks count as two hosts: if the network between them
                fails, calls must fail like all other traffic between them
        """
        return self.boot_id == other.boot_id and self.network_namespace == other.network_namespace

    def is_of_process_of(self, other: Record) -> bool:
        """Return whether both lives were in one process, which left and joined again."""
        same = (self.pid, self.process_start) == (other.pid, other.process_start)
        return same and self.shares_processes_with(other)

    def shares_processes_with(self, other: Record) -> bool:
        """Return whether both workers are in the same process id namespace."""
        return self.boot_id == other.boot_id and self.pid_namespace == other.pid_namespace != ""

    def device_map_to(self, name: str) -> dict[Device, Device]:
        """Return the map from this member's devices to the devices of worker `name`."""
        return {
            Device.parse(mine): Device.parse(theirs)
            for mine, theirs in self.device_maps.get(name, {}).items()
        }


def _fields_of(one: Record | Limits) -> dict[str, Any]:
    # dataclasses.asdict takes ten times as long, because it copies each value.
    return {name: getattr(one, name) for name in one.__dataclass_fields__}


def _require_types(record: Record) -> None:
    """Raise TypeError unless each field has its type: any member can write to the store."""
    for name, kind, usual, is_valid in _CHECKS:
        value = getattr(record, name)
        if value.__class__ is not usual and not is_valid(value):
            raise TypeError(f"{name} is {value!r:.80}; expected {kind}")
    if not _is_name(record.name):
        raise TypeError(f"name is {record.name!r:.80}")


def _is_number(value: object) -> bool:
    return type(value) is int and value >= 0


def _is_map_of(holds: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, dict) and all(map(holds, value.values()))


def _is_text(value: object) -> bool:
    return isinstance(value, str)


# Checks of a field's value, by its annotated type.
_KINDS: Final[dict[str, Callable[[object], bool]]] = {
    "str": _is_text,
    "int": _is_number,
    "int | None": lambda value: value is None or type(value) is int,
    "bool": lambda value: type(value) is bool,
    "dict[str, str]": _is_map_of(_is_text),
    "dict[str, dict[str, str]]": _is_map_of(_is_map_of(_is_text)),
    "Limits": lambda value: isinstance(value, Limits),
}
# The types whose values are always valid, so that no check is called for them.
_ALWAYS_VALID: Final[dict[str, type]] = {"str": str, "bool": bool, "Limits": Limits}
# Prepared once, because a worker that joins checks about 30 records of 19 fields each.
_CHECKS: Final = [
    (one.name, one.type, _ALWAYS_VALID.get(str(one.type)), _KINDS[str(one.type)])
    for one in fields(Record)
]


# libzmq aborts the process if no descriptor is left for accepting a connection at its Unix socket.
# sockets/connections.py keeps strangers from using up the descriptors. The limits below keep
# members from using them up. The descriptors for one peer are at most: a bell, a process handle,
# the ring and the ZeroMQ socket of lane 0, a connection to the peer, a monitor with two
# descriptors, and a ring and a connection from the peer.
_PER_PEER: Final = 9
# Each further lane to the peer needs a socket and a connection, and the lane that the peer may open
# in return needs another connection here.
_PER_LANE: Final = 3
_AT_LEAST_FREE: Final = 16


def own_lanes_between(me: Record, other: Record) -> int:
    """Return how many separate lanes a worker may open to another.

    The lanes to all members then use at most half of the descriptors of either process.
    """
    if not me.world_size:
        return MAX_OWN_LANES
    share = min(me.descriptors, other.descriptors) // 2 // max(1, me.world_size - 1)
    return max(0, min(MAX_OWN_LANES, (share - _PER_PEER) // _PER_LANE))


def require_descriptors(world_size: int) -> None:
    """Check that this process may open the descriptors that a group of this size needs at least.

    These are the descriptors for the process's neighbours in the barrier's tree. The descriptors
    for other peers are checked when those peers connect.

    Raises  RpcError with the required number
    """
    num_peers = max(0, min(world_size - 1, FAN_OUT + 1))
    _require_room(num_peers, f"a group of {world_size} workers")


def require_room_for_peer() -> int:
    """Return how many more peers this process may connect to.

    Raises  RpcError if this process may connect to no further peer
    """
    return 1 + _require_room(1, "to meet one more worker") // _PER_PEER


def _require_room(num_peers: int, what: str) -> int:
    """Check that descriptors for `num_peers` peers are left; return how many more are left."""
    limit, there = descriptor_limit(), _num_open()
    needed = there + _AT_LEAST_FREE + _PER_PEER * num_peers
    if needed > limit:
        raise RpcError(
            f"{what} takes {needed} descriptors in each process, of which {there} are open here "
            f"already, and this process may have {limit}: raise the limit with "
            f"`ulimit -n {max(1024, 2 * needed)}`, the hard one as well"
        )
    return limit - needed


def _num_open() -> int:
    try:
        return len(os.listdir("/proc/self/fd"))
    except FileNotFoundError:
        return 0  # a system without /proc


def new_incarnation() -> int:
    """Return a 64-bit number, unique among all lives of workers: the time and random bits."""
    return (int(time.time()) & 0xFFFFFFFF) << 32 | int.from_bytes(os.urandom(4), "little")


def require_name(name: str) -> None:
    """Check a worker's name.

    Raises  RpcError (a RuntimeError) with the text of PyTorch's error
    """
    if not isinstance(name, str):
        raise RpcError(f"Argument {name} must be of type {str} but got type {type(name)}")
    if not _is_name(name):
        raise RpcError(
            "Worker name must match ^[A-Za-z0-9-_:]*$, and must be non-empty and shorter than "
            f"{_MAX_NAME} chars, but got {name}"
        )


def _is_name(name: str) -> bool:
    return 0 < len(name) < _MAX_NAME and _NAME.fullmatch(name) is not None
