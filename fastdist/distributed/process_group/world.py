"""The groups of this process: the default group, and the groups from new_group."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final, Never

from ...core.caller_warning import warn_caller
from .group_base import GroupBase

if TYPE_CHECKING:
    from fastdist.distributed.store import Store

    from .group import ProcessGroup

_NO_GROUP: Final = (
    "Default process group has not been initialized, please make sure to call init_process_group."
)


class World:
    """The groups of this process.

    A process has one World. Tests set a separate World per thread, so that threads act as
    processes.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.default: ProcessGroup | None = None
        self.by_name: dict[str, ProcessGroup] = {}
        # The counts for the names of groups in the store; they are equal on all members.
        self.num_inits = 0
        self.num_groups = 0
        self.num_local_groups: dict[tuple[int, ...], int] = {}
        # The store that destroy_process_group() closes when the default group is destroyed.
        self.store: Store | None = None
        # The Agreement with which the members decide what preempted() returns.
        self.preemption: Any = None


class _Here(threading.local):
    # Shared by all threads that have not set a separate World.
    world = World()


here = _Here()


class _GroupMemberMeta(type):
    @property
    def WORLD(cls) -> Any:
        """The default group; None before init_process_group and after destroy_process_group."""
        return here.world.default

    @WORLD.setter
    def WORLD(cls, group: Any) -> None:
        here.world.default = group


class GroupMember(metaclass=_GroupMemberMeta):
    """The default group, and the value that new_group returns to processes outside the new
    group.
    """

    NON_GROUP_MEMBER = -100
    if TYPE_CHECKING:
        WORLD: ProcessGroup | None


class group(metaclass=_GroupMemberMeta):
    """The default group under the name that most programs use: `group.WORLD`."""

    if TYPE_CHECKING:
        WORLD: ProcessGroup | None


GroupMember.__module__ = group.__module__ = "fastdist.distributed.distributed_c10d"


class WorldView:
    """The groups of this process under PyTorch's names, for programs that use `_world`."""

    @property
    def default_pg(self) -> ProcessGroup | None:
        """The default group."""
        return here.world.default

    @default_pg.setter
    def default_pg(self, group: ProcessGroup | None) -> None:
        here.world.default = group

    @property
    def group_count(self) -> int:
        """The number of groups that this process has created, including the default group."""
        return here.world.num_groups + (here.world.default is not None)

    @property
    def pg_map(self) -> dict[Any, tuple[str, Store | None]]:
        """Maps a group to the name of its backend, and its store."""
        groups = here.world.by_name.values()
        return {one: (one.name(), one.get_group_store()) for one in groups}

    @property
    def pg_names(self) -> dict[Any, str]:
        """Maps a group to its name."""
        return {one: name for name, one in here.world.by_name.items()}

    @property
    def pg_group_ranks(self) -> dict[Any, dict[int, int]]:
        """Maps a group to a dict from global rank to group rank."""
        groups = here.world.by_name.values()
        return {one: {rank: i for i, rank in enumerate(one._ranks)} for one in groups}

    @property
    def pg_backend_config(self) -> dict[Any, str]:
        """Maps a group to the backend of each device type."""
        return {one: repr(one._config) for one in here.world.by_name.values()}


world_view: Final = WorldView()


def is_initialized() -> bool:
    """Return whether this process has a default group."""
    return here.world.default is not None


def get_pg_count() -> int:
    """Return the number of groups that this process is in."""
    return len(here.world.by_name)


def default_group() -> ProcessGroup:
    """Return the default group.

    Raises  ValueError if there is no default group, because init_process_group was not called
    """
    found = here.world.default
    if found is None:
        raise ValueError(_NO_GROUP)
    return found


def default_store() -> Store:
    """Return the store of the default group."""
    store = default_group().get_group_store()
    if store is None:
        raise ValueError("the default group has no store: MPI, or one member alone, needs none")
    return store


def group_of(group: Any) -> ProcessGroup:
    """Return a group of this process; None means the default group.

    Raises  ValueError if there is no default group, the argument is not a group, or it is
            NON_GROUP_MEMBER because this process is not in the group
    """
    if group is None:
        return default_group()
    if isinstance(group, GroupBase):
        return group  # type: ignore[return-value]
    _refuse(group)
    return None


def _refuse(group: Any) -> Never:
    if group == GroupMember.NON_GROUP_MEMBER:
        raise ValueError("Invalid process group specified: this process is not in that group")
    raise ValueError(f"Invalid process group specified: {group!r}; new_group returns one")


def is_outside(group: Any) -> bool:
    """Return whether `group` is NON_GROUP_MEMBER: the value for a group without this process."""
    return group is not None and group.__class__ is int and group == GroupMember.NON_GROUP_MEMBER


def member_group(what: str, group: Any) -> ProcessGroup | None:
    """Return the group for a collective; None, with a warning, if this process is not in it."""
    if is_outside(group):
        warn_caller(
            f"Running {what} on global rank {default_group().rank()} which does not belong to the "
            "given group."
        )
        return None
    return group_of(group)


def resolve_group(name: str) -> ProcessGroup:
    """Return the group with a name.

    Raises  ValueError if this process is in no group with that name
    """
    found = here.world.by_name.get(name)
    if found is None:
        known = ", ".join(map(repr, here.world.by_name)) or "none"
        raise ValueError(f"there is no process group {name!r}; known: {known}")
    return found
