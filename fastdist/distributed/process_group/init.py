"""init_process_group and destroy_process_group."""

from __future__ import annotations

import atexit
import os
import time
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from fastdist.core.errors import CollectiveError, CollectiveLostError, StoreTimeoutError
from fastdist.system.import_hooks import load_for_groups

from ...core.caller_warning import warn_caller
from ...core.folded_frames import folds
from ..constants import default_pg_timeout
from .backends import Backend, BackendConfig, Place, require_here
from .foreign import ForeignGroup
from .group import ProcessGroup
from .world import World, here, is_outside

if TYPE_CHECKING:
    from fastdist.distributed.store import Store


@folds
def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: timedelta | None = None,
    world_size: int = -1,
    rank: int = -1,
    store: Store | None = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: Any = None,
    _ranks: list[int] | None = None,
) -> None:
    """Meet the other processes of the job, and create the default group with all of them.

    Raises  ValueError if a default group exists already, or an argument is wrong; RendezvousError
            if the rank, world size or address of the store is unknown; StoreTimeoutError if some
            processes did not join in time

    Args:
        backend: "gloo" or "zmq", fastdist's own backend; "nccl" between GPUs; "mpi" in a job that
            MPI started, which then provides rank and world_size; or a registered backend. A text
            such as "cpu:gloo,cuda:nccl" gives one backend per device type. The default is this
            text if NCCL can be used, and "gloo" otherwise.
        init_method: Where the processes meet: "env://" (the default; reads the variables from the
            launcher), "tcp://HOST:PORT" or "file:///PATH".
        timeout: The timeout of collectives, and of this call; 30 minutes by default.
        world_size: The number of processes; env:// reads it from the environment.
        rank: The rank of this process.
        store: A store that all processes share, instead of init_method; None: init_method.
        group_name: Ignored, as in PyTorch.
        pg_options: Passed to a registered backend; None for other backends.
        device_id: The GPU of this process. With "nccl", its connections are made in this call; if
            None, at the first collective.

    Threads: one at a time.

    Example:
        >>> from fastdist import distributed as dist
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> dist.get_rank(), dist.get_world_size()
        (0, 1)
        >>> dist.destroy_process_group()
    """
    _require_consistent(init_method, world_size, rank, store)
    _start(backend, init_method, timeout, world_size, rank, store, pg_options, device_id)


def _start(
    backend: str | None,
    init_method: str | None,
    timeout: timedelta | None,
    world_size: int,
    rank: int,
    store: Store | None,
    pg_options: Any,
    device_id: Any,
) -> None:
    timeout = checked_timeout(timeout)
    config, name = BackendConfig(backend), Backend(backend or Backend.GLOO)
    world = here.world
    with world.lock:
        owned = None
        if store is None and name == Backend.MPI and init_method is None:
            rank, world_size = _place_by_mpi(rank, world_size)
        elif store is None:
            store, rank, world_size = _meet(init_method or "env://", rank, world_size, timeout)
            owned = store
        try:
            group = _make_default(world, config, name, store, rank, world_size, timeout, pg_options)
        except BaseException:
            if owned is not None:
                owned.close()
            raise
        group._bind(device_id)
        world.store, world.default = owned, group
        world.by_name[group.group_name] = group
    atexit.unregister(_leave_at_exit)
    atexit.register(_leave_at_exit)
    load_for_groups()


def _require_consistent(
    init_method: str | None, world_size: int, rank: int, store: Store | None
) -> None:
    if here.world.default is not None:
        raise ValueError("trying to initialize the default process group twice!")
    if store is not None and init_method is not None:
        raise ValueError("Cannot specify both init_method and store.")
    if store is not None and not (world_size > 0 and 0 <= rank < world_size):
        raise ValueError(
            f"a store needs rank and world_size as well: rank is {rank}, world_size is "
            f"{world_size}; world_size must be positive and rank non-negative, and below it"
        )


def _place_by_mpi(rank: int, world_size: int) -> tuple[int, int]:
    """Return the rank and the number of processes according to MPI."""
    require_here(Backend.MPI)
    from .mpi import place_in_job

    found = place_in_job()
    if (rank, world_size) not in (found, (-1, -1)):
        warn_caller(
            f"For MPI backend, world_size ({world_size}) and rank ({rank}) are ignored since they "
            "are assigned by the MPI runtime."
        )
    return found


def _meet(
    init_method: str, rank: int, world_size: int, timeout: timedelta
) -> tuple[Store, int, int]:
    from fastdist.distributed.rendezvous import rendezvous

    met = rendezvous(init_method, rank, world_size, timeout=timeout, shares=True)
    if not met.world_size:
        met.store.close()
        raise ValueError(
            f"the number of processes is not known: give world_size=, or {init_method!r} with "
            "?world_size=..."
        )
    return met.store, met.rank, met.world_size


def _make_default(
    world: World,
    config: BackendConfig,
    name: str,
    store: Store | None,
    rank: int,
    size: int,
    timeout: timedelta,
    options: Any,
) -> ProcessGroup:
    from .rounds import begin_round

    until = time.monotonic() + timeout.total_seconds()
    while True:
        own = None if store is None else begin_round(store, rank)
        world.num_inits = 0 if own is None else own.number
        world.num_groups = 0
        world.num_local_groups.clear()
        place = Place(own, rank, size, tuple(range(size)), "0", timeout, size)
        try:
            return make_group(config, name, place, options, desc="default_pg")
        except CollectiveLostError:
            # A lost or failed member may have restarted and begun a later round: see Note [Rounds].
            if own is None or time.monotonic() >= until or not own.is_over():
                raise


def make_group(
    config: BackendConfig, name: str, place: Place, options: Any, *, desc: str
) -> ProcessGroup:
    """Return a new group, after all of its members have joined."""
    plugins = [one for one in config.device_backend_map.values() if one.upper() in Backend._plugins]
    kind = ForeignGroup if plugins else ProcessGroup
    group = kind(place.store, place.rank, place.size)
    group._join(config, name, place, options, desc=desc)
    if isinstance(group, ForeignGroup) and group.is_transport():
        # The function returned a Transport, so ProcessGroup's own methods are used.
        plain = ProcessGroup(place.store, place.rank, place.size)
        plain._carriers.update(group._carriers)
        plain._join(config, name, place, options, desc=desc)
        return plain
    return group


def checked_timeout(timeout: Any, default: timedelta = default_pg_timeout) -> timedelta:
    """Return the timeout, or the default if it is None.

    Raises  TypeError if the timeout is not a timedelta
    """
    if timeout is None:
        return default
    if not isinstance(timeout, timedelta):
        raise TypeError(
            f"Expected timeout argument to be of type datetime.timedelta, got {timeout}"
        )
    return timeout


@folds
def destroy_process_group(group: Any = None) -> None:
    """Leave a group, or all groups of this process if `group` is None.

    Raises  ValueError if the group was destroyed before, or the argument is not a group

    Args:
        group: The group to leave. None, or the default group, leaves all groups and closes the
            store. None is also accepted if there are no groups.

    Example:
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> dist.destroy_process_group()
        >>> dist.is_initialized()
        False
    """
    if is_outside(group):
        return
    world = here.world
    with world.lock:
        if group is None or group is world.default:
            groups = list(world.by_name.values())
            store, world.store, world.default = world.store, None, None
            world.by_name.clear()
            _leave_preemption(world)
        else:
            if (
                not isinstance(group, ProcessGroup)
                or world.by_name.get(group.group_name) is not group
            ):
                raise ValueError("Invalid process group specified or has been destroyed.")
            groups, store = [group], None
            del world.by_name[group.group_name]
    for one in reversed(groups):
        one.shutdown()
    if store is not None:
        store.close()


def _leave_preemption(world: World) -> None:
    agreement, world.preemption = world.preemption, None
    if agreement is not None:
        agreement.leave()


def abort_process_group(group: Any = None) -> None:
    """Fail this process's collectives in the group, then leave as destroy_process_group does."""
    world = here.world
    with world.lock:
        groups = list(world.by_name.values()) if group is None else [group]
    for one in groups:
        one.abort()
    destroy_process_group(group)


def store_based_barrier(
    rank: int,
    store: Store,
    group_name: str,
    rendezvous_count: int,
    timeout: timedelta,
    logging_interval: timedelta = timedelta(seconds=10),
) -> None:
    """Wait until rendezvous_count processes have called this function with the same group_name.

    Raises  StoreTimeoutError if some processes did not call in time

    Args:
        rank: The rank of this process, for the error message.
        store: A store that all processes share.
        group_name: The name of the barrier, which can be used only once.
        rendezvous_count: The number of processes to wait for.
        timeout: The longest wait.
        logging_interval: Ignored: nothing is logged. The error says how many processes called.
    """
    key = f"store_based_barrier_key:{group_name}"
    if store.add(key, 1) == rendezvous_count:
        store.set(f"{key}:last_worker", "1")
    try:
        store.wait([f"{key}:last_worker"], timeout)
    except StoreTimeoutError as late:
        raise StoreTimeoutError(
            f"Timed out initializing process group in store based barrier on rank {rank}, for key "
            f"{key}: {store.add(key, 0)} of {rendezvous_count} processes came within {timeout}",
            late.missing,
        ) from late


_process_id = os.getpid()


def _leave_at_exit() -> None:
    # A forked child has none of the group's threads and sockets, so it must not leave the group.
    if os.getpid() == _process_id:
        with suppress(CollectiveError, OSError, RuntimeError):
            destroy_process_group()
