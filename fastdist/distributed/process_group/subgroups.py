"""Groups of some of the job's processes: new_group, new_subgroups, split_group."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from ...core.folded_frames import folds
from .backends import Backend, BackendConfig, Place
from .group import ProcessGroup
from .init import checked_timeout, make_group
from .world import GroupMember, World, default_group, group_of, here


@folds
def new_group(
    ranks: Sequence[int] | None = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: Any = None,
    sort_ranks: bool = True,
) -> Any:
    """Create a group of some processes. All processes of the job call new_group in the same order.

    Raises  TypeError if a rank is not an integer; ValueError if a rank does not belong to the job,
            or occurs twice; StoreTimeoutError if some members did not call in time

    Args:
        ranks: The global ranks of the members; all ranks if None.
        timeout: The timeout of collectives; the timeout of the default group if None.
        backend: See init_process_group; the backend of the default group if None.
        pg_options: Passed to a registered backend; None for other backends.
        use_local_synchronization: Whether only the members call this function.
        group_desc: A description for errors and debuggers; "undefined" if None.
        device_id: The GPU of this process, or None; see init_process_group.
        sort_ranks: Whether group ranks follow the order of global ranks; otherwise they follow the
            order of `ranks`.

    Returns:
        The group. Processes outside of the group get GroupMember.NON_GROUP_MEMBER, or None with
        use_local_synchronization.

    Example:
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> group = dist.new_group([0])
        >>> dist.get_world_size(group)
        1
        >>> dist.destroy_process_group()
    """
    world, parent = here.world, default_group()
    given = tuple(range(parent.size())) if ranks is None else tuple(map(_rank_of, ranks))
    members = tuple(sorted(given)) if sort_ranks else given
    _require_ranks(members, parent.size())
    name = _name_of(world, members, is_local=use_local_synchronization)
    if parent.rank() not in members:
        return None if use_local_synchronization else GroupMember.NON_GROUP_MEMBER
    found = _make(
        world, parent, members, name, timeout, backend, pg_options, group_desc or "undefined"
    )
    found._bind(device_id)
    return found


def find_by_ranks_and_tag(tag: str, ranks: Sequence[int]) -> ProcessGroup | None:
    """Return this process's first group with these ranks and this tag; None if there is none.

    A group's tag contains the group's name; if `tag` is empty, only the ranks are compared.
    """
    members = sorted(ranks)
    for group in here.world.by_name.values():
        if sorted(group._ranks) == members and tag in ("", tag_of(group)):
            return group
    return None


def tag_of(group: Any) -> str:
    """Return the tag of a group, for `find_by_ranks_and_tag`."""
    return f"ptd:{group_of(group).group_name}"


def _rank_of(rank: Any) -> int:
    try:
        return operator.index(rank)
    except TypeError:
        raise TypeError(f"new_group: ranks has {rank!r}; expected integers") from None


def _require_ranks(members: tuple[int, ...], world_size: int) -> None:
    if len(set(members)) != len(members):
        raise ValueError(f"ranks list must not contain duplicate entries, got {list(members)}")
    if len(members) > world_size:
        raise ValueError(
            "the new group's world size should be less or equal to the world size set by "
            "init_process_group"
        )
    for rank in members:
        if not 0 <= rank < world_size:
            raise ValueError(
                f"Rank {rank} is out of range. Valid ranks are 0 to {world_size - 1} "
                f"(world_size={world_size})"
            )
    if not members:
        raise ValueError("new_group: the list of ranks is empty")


def _name_of(world: World, members: tuple[int, ...], *, is_local: bool) -> str:
    with world.lock:
        if not is_local:
            world.num_groups += 1
            return str(world.num_groups)
        number = world.num_local_groups.get(members, 0)
        world.num_local_groups[members] = number + 1
    return f"{'-'.join(map(str, members))}.{number}"


def _make(
    world: World,
    parent: ProcessGroup,
    members: tuple[int, ...],
    name: str,
    timeout: timedelta | None,
    backend: Any,
    options: Any,
    desc: str,
) -> ProcessGroup:
    from fastdist.distributed.store import PrefixStore

    store = parent.get_group_store()
    place = Place(
        store=None if store is None else PrefixStore(f"group.{name}", store),
        rank=members.index(parent.rank()),
        size=len(members),
        ranks=members,
        name=name,
        timeout=checked_timeout(timeout, parent._timeout),
        world_size=parent.size(),
    )
    config = parent._config if backend is None else BackendConfig(backend)
    group = make_group(config, Backend(backend or parent.name()), place, options, desc=desc)
    with world.lock:
        world.by_name[name] = group
    return group


@folds
def new_subgroups(
    group_size: int | None = None,
    group: Any = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
    """Divide the processes into groups of consecutive ranks; all processes must make this call.

    Raises  ValueError if group_size is missing, too large, or does not divide the size

    Args:
        group_size: The number of members of each group; it must divide the size of `group`.
        group: The group to divide; the default group if None.
        timeout: See new_group.
        backend: See new_group.
        pg_options: See new_group.
        group_desc: See new_group.

    Returns:
        This process's group, and a list with all groups, in which NON_GROUP_MEMBER stands for
        groups without this process.
    """
    parent = group_of(group)
    if group_size is None:
        raise ValueError(
            "Default group size only takes effect when CUDA is available. If your subgroup using "
            "a backend that does not depend on CUDA, please pass in 'group_size' correctly."
        )
    size = parent.size()
    if group_size <= 0:
        raise ValueError(f"The arg 'group_size' ({group_size}) must be positive")
    if size < group_size:
        raise ValueError(
            f"The arg 'group_size' ({group_size}) must not exceed the world size ({size})"
        )
    if size % group_size:
        raise ValueError(f"The world size ({size}) must be divisible by 'group_size={group_size}'")
    lists = [
        [parent._ranks[rank] for rank in range(begin, begin + group_size)]
        for begin in range(0, size, group_size)
    ]
    return new_subgroups_by_enumeration(lists, timeout, backend, pg_options, group_desc)


@folds
def new_subgroups_by_enumeration(
    ranks_per_subgroup_list: Sequence[Sequence[int]],
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
    """Create groups with the given ranks, without overlaps; all processes must make this call.

    Raises  ValueError if the list is empty, or a rank occurs in two groups

    Args:
        ranks_per_subgroup_list: The global ranks of each group; no rank may be in two groups.
        timeout: The timeout of collectives; the timeout of the default group if None.
        backend: See init_process_group; the backend of the default group if None.
        pg_options: Passed to a registered backend; None for other backends.
        group_desc: A description for errors and debuggers; "undefined" if None.

    Returns:
        This process's group, or None if it is in no group; and a list with all groups, in which
        NON_GROUP_MEMBER stands for groups without this process.
    """
    if not ranks_per_subgroup_list:
        raise ValueError("The arg 'ranks_per_subgroup_list' cannot be empty")
    seen: dict[int, Sequence[int]] = {}
    for ranks in ranks_per_subgroup_list:
        for rank in ranks:
            if rank in seen:
                raise ValueError(
                    f"Rank {rank} has appeared in both subgroup {seen[rank]} and {ranks}"
                )
            seen[rank] = ranks
    groups = [
        new_group(ranks, timeout, backend, pg_options, group_desc=group_desc)
        for ranks in ranks_per_subgroup_list
    ]
    return next((one for one in groups if isinstance(one, ProcessGroup)), None), groups


@folds
def split_group(
    parent_pg: Any = None,
    split_ranks: Sequence[Sequence[int]] | None = None,
    timeout: timedelta | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
    backend: str | None = None,
) -> Any:
    """Divide a group into several groups; all its members must make this call with the same lists.

    Raises  ValueError if the lists are empty, overlap, or have ranks that are not in the parent

    Args:
        parent_pg: The group to divide; the default group if None.
        split_ranks: Lists of group ranks of the parent, which must not overlap.
        timeout: See new_group.
        pg_options: See new_group.
        group_desc: See new_group.
        backend: See new_group.

    Returns:
        This process's group; None if it is in no list.
    """
    if not split_ranks:
        raise ValueError("split_ranks cannot be None or empty")
    world, parent = here.world, group_of(parent_pg)
    seen = [rank for ranks in split_ranks for rank in ranks]
    if len(set(seen)) != len(seen):
        raise ValueError(f"split_ranks has a rank in two lists: {[list(r) for r in split_ranks]}")
    if any(not 0 <= rank < parent.size() for rank in seen):
        raise ValueError(f"split_ranks has ranks that are not in 0 to {parent.size() - 1}")
    found = None
    for ranks in split_ranks:
        members = tuple(sorted(parent._ranks[rank] for rank in ranks))
        name = f"{parent.group_name}.{_name_of(world, members, is_local=True)}"
        if parent._ranks[parent.rank()] in members:
            desc = group_desc or f"{parent.group_desc}:split"
            found = _make(world, default_group(), members, name, timeout, backend, pg_options, desc)
    return found
