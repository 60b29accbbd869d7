"""init_rpc: the rendezvous with the other workers, and the start of this worker's agent."""

from __future__ import annotations

import functools
import os
import threading
import time
from typing import Any

from fastdist.core.errors import RpcError
from fastdist.core.folded_frames import folds
from fastdist.devices.cpu import share_freed_memory
from fastdist.distributed.rendezvous import rendezvous, worker_address, worker_security
from fastdist.distributed.restarts import note_restarts, restart_count, run_restart_hooks
from fastdist.distributed.sockets.addresses import require_own_address
from fastdist.distributed.store import Store
from fastdist.system.unused_memory import release_unused_memory

from . import agent as agents
from . import api
from .devices import require_own_devices
from .options import RpcBackendOptions, TensorPipeRpcBackendOptions
from .process_end import watch_end, why_it_ends
from .torch_names import backend_registry
from .workers.directory import find_number, keys_of_group
from .workers.joining import count_former_lives
from .workers.record import require_name
from .zmq_agent import ZmqAgent

# Guards _init_counter and _store: two threads must not initialise at the same time.
_init_lock = threading.RLock()
_init_counter = 0
_store: Store | None = None
# The id of the process that imported this module; a forked child has another id.
_importer_id = os.getpid()


def begin_life() -> None:
    """Make the next init_rpc count as the first of a new process, for engines that reuse processes.

    Raises  RpcError while RPC runs
    """
    global _init_counter
    with _init_lock:
        if agents.is_current_agent_set():
            raise RpcError("RPC is still initialized in this process: call rpc.shutdown() first")
        _init_counter = 0


@folds
def init_rpc(
    name: str,
    backend: Any = None,
    rank: int = -1,
    world_size: int | None = None,
    rpc_backend_options: RpcBackendOptions | None = None,
) -> None:
    """Join the group as worker `name`, and start to serve requests.

    If neither `world_size` nor the environment sets a world size, the group is dynamic: workers may
    join and leave. In a restarted worker, init_rpc also runs that worker's hooks of `on_restart`.

    Raises  RpcError if this worker or the group is configured wrongly; StoreTimeoutError naming the
            members that did not join within the options' init_timeout

    Args:
        name: The name by which others call this worker; unique in the group.
        backend: A member of BackendType; None: the one of the options, else TENSORPIPE.
        rank: The number of this worker, from 0; from the environment if -1.
        world_size: The number of workers; from the environment if None.
        rpc_backend_options: Timeouts, threads, security and rendezvous; None: their defaults.

    Threads: one at a time; a process may join again after shutdown

    Example:
        >>> import tempfile
        >>> place = f"file://{tempfile.mkdtemp()}/store"
        >>> options = rpc.TensorPipeRpcBackendOptions(init_method=place)
        >>> rpc.init_rpc("worker0", rank=0, world_size=1, rpc_backend_options=options)
        >>> rpc.rpc_sync("worker0", torch.add, args=(torch.ones(2), 1))
        tensor([2., 2.])
        >>> rpc.shutdown()
    """
    require_name(name)
    backend, options = _choose_backend(backend, rpc_backend_options)
    with _init_lock:
        if agents.is_current_agent_set():
            raise RpcError("RPC is already initialized")
        is_first = _init_counter == 0
        _start(name, backend, rank, world_size, options)
    if is_first and restart_count() > 0:
        _run_own_restart_hooks()


def _choose_backend(backend: Any, options: Any) -> tuple[Any, Any]:
    kinds = backend_registry.BackendType
    if backend is not None and not isinstance(getattr(backend, "value", None), tuple):
        known = ", ".join(f"BackendType.{kind.name}" for kind in kinds)
        raise TypeError(
            f"Argument backend must be a member of BackendType: got {backend!r}, known: {known}"
        )
    if options is not None and not isinstance(options, RpcBackendOptions):
        raise TypeError(
            "Argument rpc_backend_options must be an instance of RpcBackendOptions: got "
            f"{options!r}"
        )
    if backend is None and options is not None:
        for kind in kinds:
            if type(backend_registry.construct_rpc_backend_options(kind)) is type(options):
                backend = kind
                break
        else:
            raise TypeError(f"Could not infer backend for options {options}")
    if backend is None:
        backend = kinds.TENSORPIPE
    if options is None:
        options = backend_registry.construct_rpc_backend_options(backend)
    # Checked before the wait for the other workers, so that a mistake fails early.
    wanted = backend.value.construct_rpc_backend_options_handler
    if isinstance(wanted, type) and not isinstance(options, wanted):
        raise TypeError(f"`rpc_backend_options` must be a `{wanted.__name__}`. {options}")
    return backend, options


def _start(name: str, backend: Any, rank: int, world_size: int | None, options: Any) -> None:
    global _init_counter, _store
    share_freed_memory()  # first, because it affects only threads that start later
    meeting_s = options.meeting_s()
    deadline = time.monotonic() + meeting_s
    restarts = getattr(options, "restarts", False)
    met = rendezvous(
        options.init_method,
        rank,
        -1 if world_size is None else world_size,
        timeout=meeting_s,
        security=options.security,
        certificates=options.certificates,
        takes_back=restarts,
        shares=True,
    )
    try:
        # The time that the rendezvous took counts towards the timeout.
        left_s = max(0.0, deadline - time.monotonic())
        number = _init_counter
        if restarts or not met.world_size:
            is_static = met.world_size > 0
            number = find_number(met.store, number, met.rank, name, is_static=is_static)
            if is_static and _init_counter == 0 < number:
                before = keys_of_group(met.store, number - 1)
                note_restarts(count_former_lives(before, met.rank))
        # A process may leave and join again: each group has a separate part of the store.
        store = keys_of_group(met.store, number)
        store.set_timeout(left_s)
        agents.run_start_hooks(met.rank, takes_members_later=restarts or not met.world_size)
        agent = backend_registry.init_backend(
            backend,
            store=store,
            name=name,
            rank=met.rank,
            world_size=met.world_size,
            rpc_backend_options=options,
        )
        store.set_timeout(met.store.timeout)
    except BaseException:
        met.store.close()
        agents.run_stop_hooks()
        raise
    if _init_counter == 0:
        note_restarts(getattr(getattr(agent, "me", None), "restart_count", 0))
    _init_counter = number + 1
    _store = met.store
    agents.set_current_agent(agent)
    watch_end(_leave_at_exit)
    # Release memory that is left over from the imports. A fork shares its parent's pages, and
    # writes would copy them.
    if os.getpid() == _importer_id:
        release_unused_memory()


def _run_own_restart_hooks() -> None:
    try:
        run_restart_hooks(api.get_worker_info())
    except BaseException:
        # The worker must not serve calls if one of its restart hooks failed.
        api.shutdown(graceful=False)
        raise


def close_store() -> None:
    """Close the store that init_rpc opened."""
    global _store
    with _init_lock:
        store, _store = _store, None
    if store is not None:
        store.close()


def _leave_at_exit() -> None:
    # The process ends without shutdown: notify its peers now, before any grace period.
    if agents.is_current_agent_set():
        agents.get_current_agent().ends_at_exit(why_it_ends())
        api.shutdown(graceful=False)


def make_agent(
    kind: type[ZmqAgent],
    store: Store,
    name: str,
    rank: int,
    world_size: int,
    rpc_backend_options: TensorPipeRpcBackendOptions,
) -> ZmqAgent:
    """Make an agent of the class `kind`, which uses ZeroMQ; start the agent and return it.

    Raises  TypeError for options that are not of the agent's options class
    """
    options = rpc_backend_options
    if not isinstance(options, kind.options_class):
        wanted = kind.options_class.__name__
        raise TypeError(f"`rpc_backend_options` must be a `{wanted}`. {options}")
    require_own_devices(name, options)
    host = worker_address(store, given=options.local_address)
    what = "FASTDIST_ADDRESS" if options.local_address is None else "local_address"
    require_own_address(what, host)
    agent = kind(
        store,
        name,
        rank,
        world_size,
        options,
        host=host,
        security=worker_security(
            store,
            rank,
            world_size,
            security=options.security,
            certificates=options.certificates,
            max_connections=options.limits.connections,
        ),
    )
    # The current agent is set before the first request arrives: a request may run a function that
    # makes calls.
    agents.set_current_agent(agent)
    try:
        agent.start()
    except BaseException:
        agents.set_current_agent(None)
        agent.shutdown()
        raise
    return agent


agents.add_hooks(lambda worker_id: None, close_store)
backend_registry.register_backend(
    "TENSORPIPE", TensorPipeRpcBackendOptions, functools.partial(make_agent, ZmqAgent)
)
