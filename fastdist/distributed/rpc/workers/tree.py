"""The tree of a static group's workers, for the barrier; computed from ranks, with root 0."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

# The most children of a worker: with 32 * 32 workers, all are at most two steps from the root.
FAN_OUT: Final = 32


def parent_of(rank: int, fan_out: int = FAN_OUT) -> int:
    """Return the parent of a rank that is not the root."""
    return (rank - 1) // fan_out


def children_of(rank: int, world_size: int, fan_out: int = FAN_OUT) -> range:
    """Return the children of a rank."""
    first = rank * fan_out + 1
    return range(min(first, world_size), min(first + fan_out, world_size))


def ancestors_of(rank: int, fan_out: int = FAN_OUT) -> Iterator[int]:
    """Yield the parent of a rank, its grandparent, and so on up to the root."""
    while rank:
        rank = parent_of(rank, fan_out)
        yield rank


def neighbours_of(rank: int, world_size: int, fan_out: int = FAN_OUT) -> list[int]:
    """Return the ranks that a worker may need at the barrier, even if some workers have ended.

    These are the ancestors and the children of `rank`. A child of the root also needs the root's
    other children, because one of them may have to replace the root.
    """
    near = {*ancestors_of(rank, fan_out), *children_of(rank, world_size, fan_out)}
    if rank and parent_of(rank, fan_out) == 0:
        near.update(children_of(0, world_size, fan_out))
    return sorted(near - {rank})
