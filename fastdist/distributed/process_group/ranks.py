"""Ranks in a group, and their conversion to global ranks and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...core.folded_frames import fold, folds
from .world import GroupMember, default_group, group_of, is_outside

if TYPE_CHECKING:
    from .group import ProcessGroup


def get_rank(group: Any = None) -> int:
    """Return this process's rank in a group; -1 if the process is not in it.

    Raises  ValueError if there is no default group, or group is not a group

    Args:
        group: The group; the default group if None.

    Example:
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> dist.get_rank()
        0
        >>> dist.destroy_process_group()
    """
    if is_outside(group):
        return -1
    # Not by @folds, which would take half as long as the rest (0.14 us, AMD EPYC).
    try:
        return (default_group() if group is None else _registered(group)).rank()
    except ValueError as error:
        fold(error)
        raise


def get_world_size(group: Any = None) -> int:
    """Return the number of members of a group; -1 if this process is not in it.

    Raises  ValueError if there is no default group, or group is not a group

    Args:
        group: The group; the default group if None.

    Example:
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> dist.get_world_size()
        1
        >>> dist.destroy_process_group()
    """
    if is_outside(group):
        return -1
    try:
        return (default_group() if group is None else _registered(group)).size()
    except ValueError as error:
        fold(error)
        raise


@folds
def get_global_rank(group: Any, group_rank: int) -> int:
    """Return the global rank of the member with a group rank.

    Raises  ValueError if there is no such group, or it has no such member

    Args:
        group: The group.
        group_rank: A rank in the group.
    """
    if group is GroupMember.WORLD:
        return group_rank
    ranks: tuple[int, ...] = _registered(group)._ranks
    if not 0 <= group_rank < len(ranks):
        raise ValueError(f"Group rank {group_rank} is not part of group {group}")
    return ranks[group_rank]


@folds
def get_group_rank(group: Any, global_rank: int) -> int:
    """Return the group rank of the process with a global rank.

    Raises  ValueError if there is no such group, or it does not contain the process

    Args:
        group: The group.
        global_rank: A rank in the job.
    """
    if group is GroupMember.WORLD:
        return global_rank
    ranks: tuple[int, ...] = _registered(group)._ranks
    if global_rank not in ranks:
        raise ValueError(f"Global rank {global_rank} is not part of group {group}")
    return ranks.index(global_rank)


@folds
def get_process_group_ranks(group: Any) -> list[int]:
    """Return the global ranks of a group's members in order; None means the default group.

    Raises  ValueError if there is no such group

    Args:
        group: The group; the default group if None.
    """
    return list((default_group() if group is None else _registered(group))._ranks)


def _registered(group: Any) -> ProcessGroup:
    try:
        return group_of(group)
    except ValueError:
        raise ValueError(
            f"Group {group} is not registered, please create group with "
            "torch.distributed.new_group API"
        ) from None


def rank_in(
    group: Any, what: str, global_rank: int | None, group_rank: int | None, default: int | None
) -> int:
    """Return a group rank, from either a global rank or a group rank.

    Raises  ValueError if both ranks or no rank is given, or the process is not in the group
    """
    if group_rank is not None:
        if global_rank is not None:
            raise ValueError(f"Can't specify both group_rank and global_rank in {what}")
        return group_rank
    if global_rank is None:
        if default is None:
            raise ValueError(f"Must specify global_rank or group_rank in {what}")
        return default
    if global_rank not in group._ranks:
        raise ValueError(f"Global rank {global_rank} is not part of group {group}")
    rank: int = group._ranks.index(global_rank)
    return rank
