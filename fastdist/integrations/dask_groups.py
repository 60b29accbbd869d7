"""The groups of a Dask cluster. Drivers and plugins call these functions on the scheduler."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import distributed
from distributed.diagnostics.plugin import SchedulerPlugin

from fastdist.core.errors import EngineError
from fastdist.launch.environment import Place

from .group import Hub, Run

_PLUGIN_NAME = "fastdist-groups"


@dataclass
class _Member:
    """The process of a rank. A later process may have the same address, but not `server_id`."""

    address: str
    server_id: str
    name: Any


class _Group:
    def __init__(self, hub: Hub, client: str | None) -> None:
        self.hub, self.client = hub, client
        self.members: dict[int, _Member] = {}
        # Maps each rank of a plugin's group to the number of processes that have had the rank.
        self.starts: dict[int, int] = {}

    def lost(self, scheduler: Any) -> list[int]:
        """Return the ranks whose processes have left the cluster."""
        return [rank for rank, one in self.members.items() if not _is_there(scheduler, one)]


def _is_there(scheduler: Any, member: _Member) -> bool:
    state = scheduler.workers.get(member.address)
    return state is not None and state.server_id == member.server_id


class _Groups(SchedulerPlugin):  # type: ignore[misc]
    """The groups of a cluster. A group ends when the client that created it leaves the cluster."""

    def __init__(self, scheduler: Any) -> None:
        self._scheduler = scheduler
        self.by_name: dict[str, _Group] = {}

    def remove_client(self, scheduler: Any, client: str) -> None:
        for name in [name for name, group in self.by_name.items() if group.client == client]:
            group = self.by_name.pop(name)
            ranks = [rank for rank in group.members if _is_there(scheduler, group.members[rank])]
            busy = [rank for rank in ranks if _is_busy(scheduler, group.members[rank], name)]
            group.hub.close()
            scheduler.loop.add_callback(_replace, scheduler, group, ranks, busy)

    async def close(self) -> None:
        while self.by_name:
            self.by_name.popitem()[1].hub.close()


def _is_busy(scheduler: Any, member: _Member, group: str) -> bool:
    prefix = f"fastdist-{group}-"
    return any(
        str(task.key).startswith(prefix) for task in scheduler.workers[member.address].processing
    )


def _groups(scheduler: Any) -> _Groups:
    found: _Groups | None = scheduler.plugins.get(_PLUGIN_NAME)
    if found is None:
        found = _Groups(scheduler)
        scheduler.add_plugin(found, name=_PLUGIN_NAME)
    return found


def _hub_host(scheduler: Any) -> str:
    if scheduler.address.startswith("inproc://"):
        raise EngineError(
            "the workers of this Dask cluster are threads of one process, and a group needs a "
            "process for each: make it with LocalCluster(processes=True)"
        )
    host: str = distributed.comm.get_address_host(scheduler.address)
    return host


def open_group(group: str, client: str, dask_scheduler: Any) -> tuple[str, int, str | None]:
    hub = Hub(_hub_host(dask_scheduler))
    _groups(dask_scheduler).by_name[group] = _Group(hub, client)
    return hub.host, hub.port, hub.secret


def call_hub(group: str, method: str, args: tuple[Any, ...], dask_scheduler: Any) -> Any:
    return getattr(_groups(dask_scheduler).by_name[group].hub, method)(*args)


def close_group(group: str, dask_scheduler: Any) -> None:
    found = _groups(dask_scheduler).by_name.pop(group, None)
    if found is not None:
        found.hub.close()


def claim_workers(
    group: str, ranks: Iterable[int], names: Sequence[Any] | None, dask_scheduler: Any
) -> dict[int, str] | str:
    """Reserve free workers for these ranks, and return the address of each rank's worker. If there
    are too few, return a text that says what is missing.
    """
    groups = _groups(dask_scheduler)
    members = groups.by_name[group].members
    ranks = list(ranks)
    taken = {
        member.address: name
        for name, one in groups.by_name.items()
        for rank, member in one.members.items()
        if _is_there(dask_scheduler, member) and not (name == group and rank in ranks)
    }
    allowed = [
        state
        for state in dask_scheduler.workers.values()
        if state.status == distributed.Status.running and (names is None or _is_named(state, names))
    ]
    free = {state.name: state for state in allowed if state.address not in taken}
    if len(free) < len(ranks):
        whose = "" if names is None else f" named {names}"
        others = sum(name != group for name in taken.values())
        return (
            f"Dask did not have {len(ranks)} free workers for ranks {ranks}: the cluster has "
            f"{len(allowed)}{whose}, of which {others} belong to other groups and "
            f"{len(taken) - others} to other ranks of this one; a nanny that starts lost ones "
            "again, more workers, or fewer ranks would help. LocalCluster gives a worker up whose "
            "nanny takes longer than distributed.deploy.lost-worker-timeout (15 s by default)"
        )
    found = {}
    for rank in sorted(ranks, key=lambda one: one not in members):
        before = members.get(rank)
        same = before.name if before is not None and before.name in free else None
        state = free.pop(next(iter(free)) if same is None else same)
        members[rank] = _Member(state.address, state.server_id, state.name)
        found[rank] = state.address
    return found


def _is_named(state: Any, names: Sequence[Any]) -> bool:
    """Return whether `names`, the user's names and addresses of workers, contain a worker.

    Note  a worker without a name also matches an address of the same machine, because the worker's
          address changes when its nanny restarts it
    """
    if state.name in names or state.address in names or str(state.name) in map(str, names):
        return True
    hosts = {distributed.comm.get_address_host(name) for name in names if "://" in str(name)}
    return state.host in hosts and state.name == state.address


def lost_ranks(group: str, dask_scheduler: Any) -> list[int]:
    found = _groups(dask_scheduler).by_name.get(group)
    if found is None:
        raise EngineError("this group was closed: its client has left the Dask cluster")
    return found.lost(dask_scheduler)


async def end_workers(
    group: str, ranks: Collection[int], running: Collection[int], dask_scheduler: Any
) -> None:
    found = _groups(dask_scheduler).by_name.get(group)
    if found is not None:
        there = [
            rank
            for rank in ranks
            if rank in found.members and _is_there(dask_scheduler, found.members[rank])
        ]
        await _replace(dask_scheduler, found, there, running)


async def _replace(
    scheduler: Any, group: _Group, ranks: Collection[int], running: Collection[int]
) -> None:
    """Let nannies restart the processes of these ranks.

    A process without a nanny would not be started again. It is ended only if its rank is in
    `running`, because a function that still runs there cannot be ended without its process.
    """
    states = {rank: scheduler.workers[group.members[rank].address] for rank in ranks}
    ended = [state.address for rank, state in states.items() if state.nanny or rank in running]
    if ended:
        await scheduler.restart_workers(
            workers=ended,
            wait_for_workers=False,
            on_error="return",
            stimulus_id=f"fastdist-{time.time()}",
        )


def join_group(
    plan: Run, address: str, dask_scheduler: Any
) -> tuple[Place, int, int, str | None] | None:
    """Give a worker a free rank, or the rank of a lost worker; return None if there is none."""
    groups = _groups(dask_scheduler)
    group = groups.by_name.get(plan.run_id)
    if group is None:
        group = groups.by_name[plan.run_id] = _Group(Hub(_hub_host(dask_scheduler)), None)
        group.hub.begin_run(plan.world_size)
    lost = group.lost(dask_scheduler)
    free = [rank for rank in range(plan.world_size) if rank not in group.members or rank in lost]
    if not free:
        return None
    rank, state = free[0], dask_scheduler.workers[address]
    starts = group.starts.get(rank, 0)
    group.starts[rank] = starts + 1
    group.members[rank] = _Member(address, state.server_id, state.name)
    hosts = [distributed.comm.get_address_host(one.address) for one in group.members.values()]
    mine = distributed.comm.get_address_host(address)
    local_rank = sum(
        distributed.comm.get_address_host(one.address) == mine
        for other, one in group.members.items()
        if other < rank
    )
    here = sum(state.host == mine for state in dask_scheduler.workers.values())
    place = Place(
        first_rank=rank - local_rank,
        world_size=plan.world_size,
        node_rank=list(dict.fromkeys(hosts)).index(mine),
        local_world_size=min(max(here, local_rank + 1), plan.world_size),
        master_address=group.hub.host,
        master_port=group.hub.port,
        local_address=None,
    )
    return place, local_rank, starts, group.hub.secret


def leave_group(group: str, rank: int, address: str, dask_scheduler: Any) -> None:
    found = _groups(dask_scheduler).by_name.get(group)
    # If another worker has taken the rank meanwhile, the rank is not freed.
    if found is not None and rank in found.members and found.members[rank].address == address:
        del found.members[rank]
        if not found.members:
            close_group(group, dask_scheduler)
