"""The members of a group that joins in a store, and why one cannot."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Group:
    """The ranks that have joined one group, and those of them that wait for the rest."""

    world_size: int
    values: dict[int, bytes] = field(default_factory=dict)
    # Requests; state.py, which has their class, imports this module.
    parked: list[Any] = field(default_factory=list)
    error: str = ""
    # What two brought that say they have one rank.
    claims: list[bytes] = field(default_factory=list)

    def is_complete(self) -> bool:
        """Return whether all have joined."""
        return len(self.values) == self.world_size

    def missing(self) -> list[int]:
        """Return the ranks that have not joined."""
        return [rank for rank in range(self.world_size) if rank not in self.values]


def disagreement(name: bytes, group: Group, rank: int, world_size: int, value: bytes) -> str:
    """Return why rank cannot join group, or nothing if it can."""
    why = other_size(name, group, f"rank {rank}", world_size)
    if why:
        return why
    if group.values.get(rank, value) != value:
        return (
            f"join {show(name)}: rank {rank} of {world_size} joined twice; give each process its "
            "own rank, and the store an address or file that no earlier run has used"
        )
    return ""


def other_size(name: bytes, group: Group, who: str, world_size: int) -> str:
    """Return why a world size cannot be that of group, or nothing if it can."""
    if group.world_size == world_size:
        return ""
    ranks = ", ".join(str(other) for other in sorted(group.values))
    others = (f"ranks {ranks} say", f"rank {ranks} says", "its host says")
    told = others[0 if len(group.values) > 1 else 1 if group.values else 2]
    return (
        f"join {show(name)}: {who} says the world has {world_size} members, "
        f"but {told} {group.world_size}; start all with the same world size"
    )


def claims_of(group: Group, rank: int, value: bytes) -> list[bytes]:
    """Return the two values of a rank that joined twice with different ones, else nothing."""
    held = group.values.get(rank, value)
    return [] if held == value else [held, value]


def show(key: bytes) -> str:
    """Return a key as people wrote it, no more than a line of it."""
    return repr(key[:200].decode(errors="replace"))
