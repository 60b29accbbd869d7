"""The members of a group: the record that each member publishes, and its name in errors."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Final

from fastdist.core.errors import CollectiveError
from fastdist.core.version import __version__
from fastdist.distributed.pipe.host import boot_id, network_namespace, pid_namespace, process_start
from fastdist.system.foreign_text import one_line

from .algorithms import agreed

_MOST_ADDRESSES: Final = 16


@dataclass(frozen=True, slots=True)
class Record:
    """The data that one member of a group publishes in the store.

    `rank` is the global rank. `incarnation` identifies the process's hub, so it is the same in all
    groups of the process. `group_id` is a random number of this member; the group uses the number
    of its first member.
    """

    rank: int
    incarnation: int
    group_id: int
    addresses: dict[str, str]
    security: str
    # The global ranks of all members, as text, as they were passed to this member.
    ranks: str
    # How records on bulk connections are sealed (bulk.py); empty if this member cannot seal them,
    # so that large sums use ZeroMQ.
    bulk: str
    # The algorithms with which this member can authenticate records, fastest first.
    tags: str
    # The reason why this member cannot share memory; empty if it can.
    shares_nothing: str
    # Members with different values share no memory, as if they were on different machines.
    machine: str = ""
    pid: int = field(default_factory=os.getpid)
    process_start: int | None = field(default_factory=lambda: process_start(os.getpid()))
    boot_id: str = field(default_factory=boot_id)
    pid_namespace: str = field(default_factory=pid_namespace)
    network_namespace: str = field(default_factory=network_namespace)
    user: int = field(default_factory=os.getuid)
    host: str = field(default_factory=socket.gethostname)
    version: str = __version__
    # The algorithms with which this member can encrypt records, fastest first.
    ciphers: str = ""

    def encode(self) -> bytes:
        """Return the record as bytes for the store."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, data: bytes) -> Record:
        """Return the record from bytes of the store.

        Raises  CollectiveError if the bytes are not a record of this version of fastdist
        """
        try:
            found = cls(**json.loads(data))
        except (ValueError, TypeError) as error:
            raise CollectiveError(f"not the record of a member: {one_line(error)}") from error
        for part in fields(cls):
            value = getattr(found, part.name)
            kind = _KINDS[part.name]
            if not isinstance(value, kind) or isinstance(value, bool):
                raise CollectiveError(f"a member's record has {part.name} {one_line(value)}")
        names = [*found.addresses, *found.addresses.values()]
        if len(names) > 2 * _MOST_ADDRESSES or not all(isinstance(one, str) for one in names):
            raise CollectiveError(f"a member's record has addresses {one_line(found.addresses)}")
        return found

    def shares_processes_with(self, other: Record) -> bool:
        """Return whether a process id means the same process to both members."""
        return self.boot_id == other.boot_id and self.pid_namespace == other.pid_namespace != ""

    def shares_host_with(self, other: Record) -> bool:
        """Return whether both members run on one machine, in the same network namespace."""
        return self.boot_id == other.boot_id and self.network_namespace == other.network_namespace

    def is_of_process_of(self, other: Record) -> bool:
        """Return whether both members belong to one process."""
        same = (self.pid, self.process_start) == (other.pid, other.process_start)
        return same and self.shares_processes_with(other)

    def may_share_memory_with(self, other: Record) -> bool:
        """Return whether both members may map the same segment."""
        return (
            not self.shares_nothing
            and not other.shares_nothing
            and self.shares_host_with(other)
            and self.shares_processes_with(other)
            and self.user == other.user
            and self.machine == other.machine
        )


_KINDS: Final[dict[str, type | tuple[type, ...]]] = {
    "rank": int,
    "incarnation": int,
    "group_id": int,
    "addresses": dict,
    "security": str,
    "ranks": str,
    "bulk": str,
    "tags": str,
    "ciphers": str,
    "shares_nothing": str,
    "machine": str,
    "pid": int,
    "process_start": (int, type(None)),
    "boot_id": str,
    "pid_namespace": str,
    "network_namespace": str,
    "user": int,
    "host": str,
    "version": str,
}


class Members:
    """All members of a group, by group rank."""

    def __init__(self, records: Sequence[Record]) -> None:
        self.records = tuple(records)

    def name(self, member: int) -> str:
        """Return a member's name in errors: its global rank, process and host."""
        record = self.records[member]
        return f"rank {record.rank} (pid {record.pid} on {one_line(record.host, 64)})"

    def tags(self) -> str:
        """Return the algorithm that authenticates this group's records without encryption."""
        return agreed(record.tags for record in self.records)

    def cipher(self) -> str:
        """Return the algorithm that encrypts this group's records."""
        return agreed(record.ciphers for record in self.records)

    def names(self, members: Sequence[int]) -> str:
        """Return the names of several members in errors."""
        shown = ", ".join(self.name(member) for member in members[:8])
        more = len(members) - 8
        return shown if more <= 0 else f"{shown} and {more} more"


def machines_of(records: Sequence[Record]) -> list[list[int]]:
    """Return lists of the members that may share memory; the lists are in the order of their lowest
    ranks.
    """
    machines: list[list[int]] = []
    for member, record in enumerate(records):
        for machine in machines:
            if records[machine[0]].may_share_memory_with(record):
                machine.append(member)
                break
        else:
            machines.append([member])
    return machines
