"""Who is in the group: each member's record, and how the members are looked up."""

from __future__ import annotations

import json
import logging
import os
import re
import socket
import threading
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from typing import Final

from fastdist.core.device import Device
from fastdist.core.errors import RpcError, StoreError
from fastdist.core.version import __version__
from fastdist.distributed.pipe.host import (
    boot_id,
    network_namespace,
    pid_namespace,
    process_start,
)
from fastdist.distributed.pipe.limits import DEFAULT, Limits
from fastdist.distributed.pipe.message import VERSION
from fastdist.distributed.sockets import descriptor_limit
from fastdist.distributed.store import PrefixStore, Store

from . import group_log

_NAME: Final = re.compile(r"^[A-Za-z0-9\-_:]*$")
_MAX_NAME: Final = 128
TELL_S: Final = 1.0  # how long the store is waited for where it need not answer
# What no key holds: to expect it of one reads it, and does not wait where a member has just left.
_ABSENT: Final = b"\0absent"

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """A worker's name and id; cheaper to pass to a call than the name.

    Note    frozen, so that it can be a key
    """

    name: str
    id: int

    def __repr__(self) -> str:
        return f"WorkerInfo(id={self.id}, name={self.name})"


@dataclass(frozen=True, slots=True)
class Record:
    """What a member tells all others about itself.

    `incarnation` is new in each life of a rank, so that what an earlier life said is known as such.
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

    @property
    def info(self) -> WorkerInfo:
        """Name and id alone."""
        return WorkerInfo(self.name, self.rank)

    @property
    def whereabouts(self) -> str:
        """Who and where this is, for messages to people."""
        address = self.addresses.get("uv") or next(iter(self.addresses.values()), "no address")
        return f"{self.name!r} (rank {self.rank}), process {self.pid} on {self.host}, at {address}"

    def encode(self) -> bytes:
        """Return the record as the store keeps it."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, encoded: bytes) -> Record:
        """Return the record that a member stored.

        Raises  RpcError for anything else
        """
        try:
            told = json.loads(encoded)
            record = cls(**{**told, "limits": Limits.of_record(told["limits"])})
            _require_types(record)
            return record
        except (ValueError, TypeError, KeyError) as error:
            raise RpcError(f"the store holds no record of a worker but {encoded[:80]!r}") from error

    def shares_host_with(self, other: Record) -> bool:
        """Return whether both run on one machine, and have its network in common.

        Note    containers with networks of their own are two hosts: calls between them are to stop
                when the network between them does, as all else that the two do
        """
        return self.boot_id == other.boot_id and self.network_namespace == other.network_namespace

    def shares_processes_with(self, other: Record) -> bool:
        """Return whether one's process id means the same to the other."""
        return self.boot_id == other.boot_id and self.pid_namespace == other.pid_namespace != ""

    def device_map_to(self, name: str) -> dict[Device, Device]:
        """Return the map from this member's devices to those of worker `name`."""
        return {
            Device.parse(mine): Device.parse(theirs)
            for mine, theirs in self.device_maps.get(name, {}).items()
        }


def _require_types(record: Record) -> None:
    """Raise TypeError unless each field holds what it should: any member can write to the store."""
    texts = (
        *(record.name, record.security, record.version),
        *(record.boot_id, record.pid_namespace, record.network_namespace, record.host),
    )
    numbers = (
        *(record.rank, record.world_size, record.incarnation, record.pid),
        *(record.wire_version, record.descriptors),
    )
    maps = (record.addresses, *record.device_maps.values())
    if not all(isinstance(text, str) for text in texts):
        raise TypeError("a text is none")
    if not all(type(number) is int and number >= 0 for number in numbers):
        raise TypeError("a number is none")
    if not all(isinstance(one, dict) and _holds_texts(one) for one in maps):
        raise TypeError("a map of names is none")


def _holds_texts(texts: dict[str, str]) -> bool:
    return all(isinstance(value, str) for value in texts.values())


def new_incarnation() -> int:
    """Return 64 bits that no other life of a worker has: random ones, and the time."""
    return (int(time.time()) & 0xFFFFFFFF) << 32 | int.from_bytes(os.urandom(4), "little")


def require_name(name: str) -> None:
    """Check a worker's name.

    Raises  RpcError (a RuntimeError) with torch's text
    """
    if not isinstance(name, str) or not 0 < len(name) < _MAX_NAME or not _NAME.fullmatch(name):
        raise RpcError(
            "Worker name must match ^[A-Za-z0-9-_:]*$, and must be non-empty and shorter than "
            f"{_MAX_NAME} chars, but got {name}"
        )


class Membership:
    """The members by id and by name, and this worker's own record.

    In a static group all are known from the beginning. In a dynamic one (`world_size` 0) a member
    that is not known is looked for in the store.

    Thread  any
    """

    def __init__(self, store: Store, me: Record, members: Iterable[Record]) -> None:
        self._store = store
        self.me = me
        self.is_static = me.world_size > 0
        # One reads the store at a time: what one read must not replace what another read later.
        self._refresh_lock = threading.Lock()
        # Guards all below it; readers do without. May be taken while the one above is held.
        self._members_lock = threading.Lock()
        self._by_id: dict[int, Record] = {}
        self._by_name: dict[str, Record] = {}
        # Looked up at each call; one object for each member, by name and by id.
        self._infos: dict[str | int, WorkerInfo] = {}
        # Who left since somebody last began to read the store, by incarnation.
        self._left: set[int] = set()
        for record in members:
            self._add(record)

    def get(self, to: str | int | WorkerInfo) -> Record:
        """Return a member's record.

        Raises  RpcError naming the ones that exist
        """
        record = self.find(to)
        if record is None:
            known = ", ".join(sorted(self._by_name))
            raise RpcError(
                f"name:{self.me.name},rank:{self.me.rank} could not find destination "
                f"{'name' if isinstance(to, str) else 'id'} {to}; the group has: {known}"
            )
        return record

    def info_of(self, to: str | int | WorkerInfo) -> WorkerInfo:
        """Return the WorkerInfo of a member.

        Raises  RpcError naming the ones that exist
        """
        info = self._infos.get(to.id if isinstance(to, WorkerInfo) else to)
        return self.get(to).info if info is None else info

    def find(self, to: str | int | WorkerInfo) -> Record | None:
        """Return a member's record, or None."""
        if isinstance(to, WorkerInfo):
            to = to.id
        record = self._by_name.get(to) if isinstance(to, str) else self._by_id.get(to)
        if record is None and not self.is_static:
            self._refresh()
            record = self._by_name.get(to) if isinstance(to, str) else self._by_id.get(to)
        return record

    def known(self, rank: int) -> Record | None:
        """Return the record of a member that has been met, or None; asks nobody."""
        return self._by_id.get(rank)

    def url_of(self, name: str) -> dict[str, str]:
        """Return the addresses of a worker by transport.

        Raises  RpcError
        """
        record = self.find(name)
        if record is None:
            raise RpcError(
                f"name:{self.me.name},rank:{self.me.rank} could not find destination url for "
                f"name {name}"
            )
        return record.addresses

    def all(self) -> list[Record]:
        """Return all members that are known, by id."""
        if not self.is_static:
            self._refresh()
        with self._members_lock:
            return [self._by_id[rank] for rank in sorted(self._by_id)]

    def leave(self) -> None:
        """Take this worker out of a dynamic group; a store that does not answer is not waited for.

        Note    another one may have the rank by now, if this worker was given up: its entries stay
        Raises  StoreError
        """
        if self.is_static:
            return
        present = group_log.read_present(self._store, TELL_S)
        if self.me.incarnation in {entry.incarnation for entry in present}:
            # Before the rank and the name are free: after it, these may be another's.
            for prefix, key in (("names", str(self.me.rank)), ("addrs", self.me.name)):
                _impatient(prefix, self._store).delete_key(key)
        withdraw(self._store, self.me)

    def tell_shutdown(self) -> None:
        """Note in the store that this worker has come to its shutdown; waits for a second at most.

        Note    the barrier goes by messages; this tells who has come where its leader cannot
        """
        try:
            self._shutdown_store().set(str(self.me.rank), self.me.name)
        except StoreError as error:
            _logger.info("the store could not be told of the shutdown: %s", error)

    def not_in_shutdown(self) -> list[WorkerInfo]:
        """Return those who have not come to their shutdown, as far as can be told."""
        store = self._shutdown_store()
        try:
            return [record.info for record in self.all() if not store.check([str(record.rank)])]
        except StoreError as error:
            _logger.info("the store does not tell who has come to the shutdown: %s", error)
            return []

    def _shutdown_store(self) -> PrefixStore:
        return _impatient("shutdown", self._store)

    def forget(self, rank: int, incarnation: int) -> None:
        """Drop a member of a dynamic group that has left, but none that took its place."""
        if self.is_static:
            return
        with self._members_lock:
            self._left.add(incarnation)
            record = self._by_id.get(rank)
            if record is not None and record.incarnation == incarnation:
                del self._by_id[rank]
                self._infos.pop(rank, None)
                self._drop_name(record)

    def look_again(self) -> None:
        """Read who is in a dynamic group; what the store does not tell stays as it was."""
        try:
            self._refresh()
        except StoreError as error:
            _logger.info("the store does not tell who is in the group: %s", error)

    def latest(self, rank: int, incarnation: int) -> Record:
        """Return a member's record, read anew if it is that of another life.

        Raises  as get
        """
        record = self.get(rank)
        if record.incarnation != incarnation and not self.is_static:
            self._refresh()
            record = self.get(rank)
        return record

    def _add(self, record: Record) -> None:
        if record.rank != self.me.rank:
            # From here on these are what may be sent to it: no more than either end allows.
            record = replace(record, limits=self.me.limits.towards(record.limits))
        before = self._by_id.get(record.rank)
        self._by_id[record.rank] = record
        self._by_name[record.name] = record
        self._infos[record.rank] = self._infos[record.name] = record.info

        if before is not None and before.name != record.name:
            # It has left, though nobody said so: what is for it must not go to another.
            self._drop_name(before)

    def _drop_name(self, record: Record) -> None:
        if self._by_name.get(record.name) is record:
            del self._by_name[record.name]
            self._infos.pop(record.name, None)

    def _refresh(self) -> None:
        with self._refresh_lock:
            with self._members_lock:
                self._left.clear()
            found = read_dynamic_members(self._store)
            with self._members_lock:
                for record in found:
                    if record.incarnation not in self._left:
                        self._add(record)


def withdraw(store: Store, me: Record) -> None:
    """Free the name and rank that a worker has claimed, or may have, in a dynamic group.

    Raises  StoreError; a store that does not answer is not waited for
    """
    group_log.leave(store, me.incarnation, TELL_S)
    _impatient("members", store).delete_key(str(me.incarnation))


def _impatient(prefix: str, store: Store) -> PrefixStore:
    view = PrefixStore(prefix, store)
    view.set_timeout(TELL_S)
    return view


def read_dynamic_members(store: Store) -> list[Record]:
    """Return the members of a dynamic group that have not left."""
    present = group_log.read_present(store)
    members = PrefixStore("members", store)
    found = [members.compare_set(str(one.incarnation), _ABSENT, _ABSENT) for one in present]
    return [Record.decode(record) for record in found if record != _ABSENT]
