"""Process groups and their collectives: the public names.

The code is in process_group. Some names of PyTorch stand for kinds of communication that fastdist
does not have; calling them raises an error. core/refused_names.py lists these names.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from ..core.errors import DistBackendError as DistBackendError
from ..core.errors import DistError as DistError
from ..core.errors import DistNetworkError as DistNetworkError
from ..core.errors import DistStoreError as DistStoreError
from ..core.errors import QueueEmptyError as QueueEmptyError
from ..core.folded_frames import folds
from ..core.missing import load_later
from ..core.refused import refused_in
from .constants import FIRST_BUCKET_BYTES
from .constants import default_pg_timeout as default_pg_timeout
from .data_parallel.grad_bucket import GradBucket as GradBucket
from .process_group import backends, coalescing, init, options, reductions, subgroups, world
from .process_group.backends import Backend as Backend
from .process_group.backends import BackendConfig as BackendConfig
from .process_group.coalescing import _coalescing_manager as _coalescing_manager
from .process_group.collectives import all_gather as all_gather
from .process_group.collectives import all_gather_coalesced as all_gather_coalesced
from .process_group.collectives import all_gather_into_tensor as all_gather_into_tensor
from .process_group.collectives import all_reduce as all_reduce
from .process_group.collectives import all_reduce_coalesced as all_reduce_coalesced
from .process_group.collectives import all_to_all as all_to_all
from .process_group.collectives import all_to_all_single as all_to_all_single
from .process_group.collectives import barrier as barrier
from .process_group.collectives import broadcast as broadcast
from .process_group.collectives import gather as gather
from .process_group.collectives import reduce as reduce
from .process_group.collectives import reduce_scatter as reduce_scatter
from .process_group.collectives import reduce_scatter_tensor as reduce_scatter_tensor
from .process_group.collectives import scatter as scatter
from .process_group.debug_level import DebugLevel as DebugLevel
from .process_group.debug_level import get_debug_level as get_debug_level
from .process_group.debug_level import set_debug_level as set_debug_level
from .process_group.debug_level import set_debug_level_from_env as set_debug_level_from_env
from .process_group.exchange import P2POp as P2POp
from .process_group.exchange import batch_isend_irecv as batch_isend_irecv
from .process_group.exchange import irecv as irecv
from .process_group.exchange import isend as isend
from .process_group.exchange import recv as recv
from .process_group.exchange import send as send
from .process_group.gloo import ProcessGroupGloo as ProcessGroupGloo
from .process_group.group import ProcessGroup as ProcessGroup
from .process_group.init import destroy_process_group as destroy_process_group
from .process_group.init import init_process_group as init_process_group
from .process_group.options import AllgatherOptions as AllgatherOptions
from .process_group.options import AllreduceCoalescedOptions as AllreduceCoalescedOptions
from .process_group.options import AllreduceOptions as AllreduceOptions
from .process_group.options import AllToAllOptions as AllToAllOptions
from .process_group.options import BarrierOptions as BarrierOptions
from .process_group.options import BroadcastOptions as BroadcastOptions
from .process_group.options import GatherOptions as GatherOptions
from .process_group.options import ReduceOptions as ReduceOptions
from .process_group.options import ReduceScatterOptions as ReduceScatterOptions
from .process_group.options import ScatterOptions as ScatterOptions
from .process_group.ranks import get_global_rank as get_global_rank
from .process_group.ranks import get_group_rank as get_group_rank
from .process_group.ranks import get_process_group_ranks as get_process_group_ranks
from .process_group.ranks import get_rank as get_rank
from .process_group.ranks import get_world_size as get_world_size
from .process_group.reductions import ReduceOp as ReduceOp
from .process_group.reductions import supports_complex as supports_complex
from .process_group.subgroups import new_group as new_group
from .process_group.subgroups import new_subgroups as new_subgroups
from .process_group.subgroups import (
    new_subgroups_by_enumeration as new_subgroups_by_enumeration,
)
from .process_group.subgroups import split_group as split_group
from .process_group.work import Work as Work
from .process_group.work import work_of_future
from .process_group.world import GroupMember as GroupMember
from .process_group.world import get_pg_count as get_pg_count
from .process_group.world import group as group
from .process_group.world import is_initialized as is_initialized

if TYPE_CHECKING:
    from .process_group.collectives import monitored_barrier as monitored_barrier
    from .process_group.objects import all_gather_object as all_gather_object
    from .process_group.objects import broadcast_object_list as broadcast_object_list
    from .process_group.objects import gather_object as gather_object
    from .process_group.objects import recv_object_list as recv_object_list
    from .process_group.objects import scatter_object_list as scatter_object_list
    from .process_group.objects import send_object_list as send_object_list
    from .rendezvous import rendezvous as rendezvous
    from .store import FileStore as FileStore
    from .store import HashStore as HashStore
    from .store import PrefixStore as PrefixStore
    from .store import Store as Store
    from .store import TCPStore as TCPStore

REAL: Final = (
    "AllToAllOptions", "AllreduceCoalescedOptions", "AllreduceOptions", "Backend",
    "BackendConfig", "BarrierOptions", "BroadcastOptions", "DebugLevel", "DistBackendError",
    "DistError", "DistNetworkError", "DistStoreError", "GatherOptions", "GradBucket",
    "GroupMember", "GroupName", "P2POp", "ProcessGroup", "ProcessGroupGloo", "QueueEmptyError",
    "RankType",
    "ReduceOp", "ReduceOptions", "ReduceScatterOptions", "ScatterOptions", "Work", "all_gather",
    "all_gather_coalesced", "all_gather_into_tensor", "all_gather_object", "all_gather_single",
    "all_reduce", "all_reduce_coalesced", "all_to_all", "all_to_all_single", "barrier",
    "batch_isend_irecv", "broadcast", "broadcast_object_list", "default_pg_timeout",
    "destroy_process_group", "gather", "gather_object", "get_backend", "get_backend_config",
    "get_debug_level", "get_default_backend_for_device", "get_global_rank", "get_group_rank",
    "get_node_local_rank", "get_pg_count", "get_process_group_ranks", "get_rank",
    "get_world_size", "group", "init_process_group", "irecv", "is_backend_available",
    "is_gloo_available", "is_initialized", "is_mpi_available", "is_nccl_available",
    "is_torchelastic_launched", "is_ucc_available", "is_xccl_available", "isend",
    "monitored_barrier", "new_group", "new_subgroups", "new_subgroups_by_enumeration", "recv",
    "recv_object_list", "reduce", "reduce_op", "reduce_scatter", "reduce_scatter_single",
    "reduce_scatter_tensor", "scatter", "scatter_object_list", "send", "send_object_list",
    "set_debug_level", "set_debug_level_from_env", "split_group", "supports_complex",
)  # fmt: skip
REFUSED: Final = refused_in(__name__)
globals().update(REFUSED)
__all__ = [*REAL, *(name for name in REFUSED if not name.startswith("_"))]  # noqa: PLE0604
# Private names that `fastdist.distributed` offers too. It also offers the names of `__all__`,
# except the backends that only some builds of PyTorch have.
_PRIVATE_ABOVE = (
    "_Work", "_all_gather_base", "_broadcast_coalesced", "_coalescing_manager",
    "_create_process_group_wrapper", "_get_default_group", "_get_process_group_name",
    "_make_nccl_premul_sum", "_rank_not_in_group", "_reduce_scatter_base",
    "_compute_bucket_assignment_by_size", "_DEFAULT_FIRST_BUCKET_BYTES",
    "_resolve_process_group", "_verify_params_across_processes",
)  # fmt: skip
OFFERED_ABOVE: Final = frozenset({*__all__, *_PRIVATE_ABOVE}) - {
    "ProcessGroupMPI",
    "ProcessGroupNCCL",
}

all_gather_single = all_gather_into_tensor
reduce_scatter_single = reduce_scatter_tensor
_all_gather_base = all_gather_into_tensor
_Work = Work
_create_work_from_future = work_of_future
_CoalescingManager = coalescing.CoalescingManager
_DistributedBackendOptions = options.DistributedBackendOptions
_DEFAULT_FIRST_BUCKET_BYTES = FIRST_BUCKET_BYTES
_abort_process_group = init.abort_process_group
_find_pg_by_ranks_and_tag = subgroups.find_by_ranks_and_tag
_get_default_group = world.default_group
_get_group_tag = subgroups.tag_of
_get_default_store = world.default_store
_group_of = world.group_of
_make_nccl_premul_sum = reductions.premultiplied_sum
_store_based_barrier = init.store_based_barrier
_world = world.world_view
_rank_not_in_group = world.is_outside
_resolve_process_group = world.resolve_group
_reduce_scatter_base = reduce_scatter_tensor


GroupName = str
RankType = int

# The older name of ReduceOp.
reduce_op = ReduceOp


def is_gloo_available() -> bool:
    """Return True: "gloo" is an alias of "zmq", fastdist's own backend."""
    return True


def is_nccl_available() -> bool:
    """Return whether this process has a GPU, CuPy and NCCL. Loads CuPy if it is installed."""
    return not backends.why_not_here(Backend.NCCL)


def is_mpi_available() -> bool:
    """Return whether mpi4py is installed and MPI started this process."""
    return not backends.why_not_here(Backend.MPI)


def is_ucc_available() -> bool:
    """Return False: use "gloo"."""
    return False


is_xccl_available = is_ucc_available


@folds
def is_backend_available(backend: str) -> bool:
    """Return whether groups can use a backend. "gloo", "zmq" and registered backends can always be
    used, "nccl" and "mpi" only if they work in this process.

    Args:
        backend: The name of a backend, such as "gloo"; case does not matter.
    """
    name = backend.lower()
    is_known = name in backends.connections or name.upper() in Backend._plugins
    return is_known and not backends.why_not_here(name)


def is_torchelastic_launched() -> bool:
    """Return whether `fastdist run` or torchrun started this process."""
    return os.environ.get("TORCHELASTIC_RUN_ID") is not None


@folds
def get_backend(group: Any = None) -> str:
    """Return the name of a group's backend, such as "gloo".

    Raises  ValueError if there is no such group, or this process is not in it

    Args:
        group: The group; the default group if None.
    """
    return _group_of(group).name()


@folds
def get_backend_config(group: Any = None) -> str:
    """Return the backend of each device type, such as "cpu:gloo,cuda:gloo".

    Raises  ValueError if there is no such group, or this process is not in it

    Args:
        group: The group; the default group if None.
    """
    return repr(_group_of(group)._config)


@folds
def get_default_backend_for_device(device: Any) -> str:
    """Return PyTorch's default backend for a device, such as "gloo" for "cpu".

    Raises  ValueError if there is no default backend for this device type

    Args:
        device: A device, or the name of a device type.
    """
    kind = str(getattr(device, "type", device)).partition(":")[0]
    if kind not in Backend.default_device_backend_map:
        raise ValueError(f"Default backend not registered for device : {device}")
    return Backend.default_device_backend_map[kind]


@folds
def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """Return this process's rank on its machine, from LOCAL_RANK.

    Raises  RuntimeError if LOCAL_RANK is not set and there is no fallback

    Args:
        fallback_rank: The result if LOCAL_RANK is not set.
    """
    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    if fallback_rank is None:
        raise RuntimeError(
            "LOCAL_RANK is not in the environment. Start the program with a launcher, or pass "
            "fallback_rank to get_node_local_rank()."
        )
    return int(fallback_rank)


def _get_process_group_store(group: Any) -> Any:
    return _group_of(group).get_group_store()


def _get_group_size(group: Any) -> int:
    return get_world_size(group)


def _get_group_size_by_name(group_name: Any) -> int:
    return (
        _resolve_process_group(group_name) if isinstance(group_name, str) else group_name
    ).size()


def _get_process_group_name(pg: Any) -> str:
    return _group_of(pg).group_name


def _get_pg_default_device(group: Any = None) -> Any:
    from ..core.device import Device

    return Device(next(iter(_group_of(group)._config.device_backend_map)))


if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
else:
    # Importing the names in these tuples loads ZeroMQ.
    _STORES = ("FileStore", "HashStore", "PrefixStore", "Store", "TCPStore")
    _OBJECTS = (
        "all_gather_object", "broadcast_object_list", "gather_object", "recv_object_list",
        "scatter_object_list", "send_object_list",
    )  # fmt: skip
    _WRAPPERS = (
        "_broadcast_coalesced", "_compute_bucket_assignment_by_size",
        "_verify_params_across_processes",
    )  # fmt: skip
    load_later(
        __name__,
        {
            **dict.fromkeys(_WRAPPERS, ".data_parallel.for_wrappers"),
            "rendezvous": ".rendezvous",
            **dict.fromkeys(_STORES, ".store"),
            **dict.fromkeys(_OBJECTS, ".process_group.objects"),
            "monitored_barrier": ".process_group.collectives",
        },
    )
