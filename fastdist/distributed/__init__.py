"""The distributed half of fastdist: RPC between workers, and automatic differentiation across them.

From the bottom up:

sockets          makes, secures, watches and counts ZeroMQ sockets
store            the small shared dictionary through which a job's workers find each other
rendezvous.py    the step in which a worker learns its rank and finds the store
restarts.py      workers that were started again after a failure
pipe             lanes between two workers, over TCP, Unix sockets or shared memory
arena            memory that processes of one machine share, for large tensors
rpc              calls, remote references, and groups of workers
autograd         backward passes and forward mode across workers
explain          reports on a backward pass: its graph, and the time of each part
nn               modules on other workers
optim.py         optimizers that step parameters on the workers that own them
zero_optimizer.py  an optimizer whose state is divided among the processes
post_local_sgd_optimizer.py  an optimizer that averages its parameters periodically
data_parallel    gradient reduction for nn.parallel.DistributedDataParallel
links            the transports of collectives between processes
process_group    groups of processes and their collectives
preemption.py    agrees on the step after which all workers save and exit
distributed_c10d.py  the public names of process groups and collectives
_functional_collectives.py  collectives with derivatives, for tensor-parallel programs
collective_utils.py  shares results or failures among members; c10d_logger.py: logs errors
utils.py         helpers for module wrappers, with PyTorch's private names
device_mesh.py   a grid of processes, with a process group for each row along each axis
tensor, fsdp, algorithms, elastic, constants.py  other PyTorch names that packages import
remote_device.py the placement of a remote module: a worker and a device
checkpoint       checkpoints of a whole job
profiler         calls and time lines of several workers
monitor          metrics of a running worker, for `fastdist top` and Prometheus
run.py           `python -m fastdist.distributed.run`, and launch.py: PyTorch's names of the
                 launcher

Each subpackage is imported on first use. So `import fastdist` does not load ZeroMQ and starts no
thread, and a process that has only imported fastdist can still fork.

docs/glossary.md explains the terms.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import TYPE_CHECKING, Any

from fastdist.core.missing import missing
from fastdist.system.import_hooks import load_when_groups_start, load_when_rpc_starts

if TYPE_CHECKING:
    from . import _functional_collectives as _functional_collectives
    from . import algorithms as algorithms
    from . import autograd as autograd
    from . import checkpoint as checkpoint
    from . import constants as constants
    from . import device_mesh as device_mesh
    from . import distributed_c10d as distributed_c10d
    from . import elastic as elastic
    from . import explain as explain
    from . import fsdp as fsdp
    from . import monitor as monitor
    from . import nn as nn
    from . import optim as optim
    from . import pipe as pipe
    from . import preemption as preemption
    from . import profiler as profiler
    from . import remote_device as remote_device
    from . import rendezvous as rendezvous
    from . import restarts as restarts
    from . import rpc as rpc
    from . import sockets as sockets
    from . import store as store
    from . import tensor as tensor
    from .device_mesh import DeviceMesh as DeviceMesh
    from .device_mesh import init_device_mesh as init_device_mesh
    from .distributed_c10d import Backend as Backend
    from .distributed_c10d import GroupMember as GroupMember
    from .distributed_c10d import P2POp as P2POp
    from .distributed_c10d import ProcessGroup as ProcessGroup
    from .distributed_c10d import ReduceOp as ReduceOp
    from .distributed_c10d import Work as Work
    from .distributed_c10d import all_gather as all_gather
    from .distributed_c10d import all_gather_into_tensor as all_gather_into_tensor
    from .distributed_c10d import all_gather_object as all_gather_object
    from .distributed_c10d import all_gather_single as all_gather_single
    from .distributed_c10d import all_reduce as all_reduce
    from .distributed_c10d import all_to_all as all_to_all
    from .distributed_c10d import all_to_all_single as all_to_all_single
    from .distributed_c10d import barrier as barrier
    from .distributed_c10d import batch_isend_irecv as batch_isend_irecv
    from .distributed_c10d import broadcast as broadcast
    from .distributed_c10d import broadcast_object_list as broadcast_object_list
    from .distributed_c10d import destroy_process_group as destroy_process_group
    from .distributed_c10d import gather as gather
    from .distributed_c10d import gather_object as gather_object
    from .distributed_c10d import get_backend as get_backend
    from .distributed_c10d import get_global_rank as get_global_rank
    from .distributed_c10d import get_group_rank as get_group_rank
    from .distributed_c10d import get_process_group_ranks as get_process_group_ranks
    from .distributed_c10d import get_rank as get_rank
    from .distributed_c10d import get_world_size as get_world_size
    from .distributed_c10d import group as group
    from .distributed_c10d import init_process_group as init_process_group
    from .distributed_c10d import irecv as irecv
    from .distributed_c10d import is_backend_available as is_backend_available
    from .distributed_c10d import is_gloo_available as is_gloo_available
    from .distributed_c10d import is_mpi_available as is_mpi_available
    from .distributed_c10d import is_nccl_available as is_nccl_available
    from .distributed_c10d import is_torchelastic_launched as is_torchelastic_launched
    from .distributed_c10d import isend as isend
    from .distributed_c10d import monitored_barrier as monitored_barrier
    from .distributed_c10d import new_group as new_group
    from .distributed_c10d import new_subgroups as new_subgroups
    from .distributed_c10d import new_subgroups_by_enumeration as new_subgroups_by_enumeration
    from .distributed_c10d import recv as recv
    from .distributed_c10d import recv_object_list as recv_object_list
    from .distributed_c10d import reduce as reduce
    from .distributed_c10d import reduce_scatter as reduce_scatter
    from .distributed_c10d import reduce_scatter_single as reduce_scatter_single
    from .distributed_c10d import reduce_scatter_tensor as reduce_scatter_tensor
    from .distributed_c10d import scatter as scatter
    from .distributed_c10d import scatter_object_list as scatter_object_list
    from .distributed_c10d import send as send
    from .distributed_c10d import send_object_list as send_object_list
    from .distributed_c10d import split_group as split_group
    from .preemption import PREEMPTED_EXIT_STATUS as PREEMPTED_EXIT_STATUS
    from .preemption import preempted as preempted
    from .preemption import request_preemption as request_preemption
    from .remote_device import _remote_device as _remote_device
    from .restarts import on_restart as on_restart
    from .restarts import restart_count as restart_count
    from .store import FileStore as FileStore
    from .store import HashStore as HashStore
    from .store import PrefixStore as PrefixStore
    from .store import Store as Store
    from .store import TCPStore as TCPStore

_ROOMS = frozenset(
    {
        *("autograd", "checkpoint", "explain", "nn", "optim", "pipe", "preemption", "profiler"),
        *("remote_device", "rendezvous", "restarts", "rpc", "sockets", "store"),
        *("algorithms", "constants", "device_mesh", "distributed_c10d", "elastic", "fsdp"),
        *("launcher", "pipelining", "tensor", "utils", "_functional_collectives"),
        *("c10d_logger", "collective_utils", "monitor"),
    }
)

# The module that defines each name here that is neither a module nor from distributed_c10d.
_HOMES = {
    "PREEMPTED_EXIT_STATUS": "preemption",
    "preempted": "preemption",
    "request_preemption": "preemption",
    "on_restart": "restarts",
    "restart_count": "restarts",
    "FileStore": "store",
    "HashStore": "store",
    "PrefixStore": "store",
    "Store": "store",
    "TCPStore": "store",
    "register_rendezvous_handler": "rendezvous",
    "_remote_device": "remote_device",
    "DeviceMesh": "device_mesh",
    "init_device_mesh": "device_mesh",
}

# Every worker must be able to take part in backward passes, even if its own program starts none.
load_when_rpc_starts(lambda: importlib.import_module(f"{__name__}.autograd"))
# Another worker that explains a backward pass requests a report from this worker.
load_when_rpc_starts(lambda: importlib.import_module(f"{__name__}.explain"))
# Another worker that profiles its calls needs the times of the parts that run on this worker.
load_when_rpc_starts(lambda: importlib.import_module(f"{__name__}.profiler"))


def _begin_monitor() -> None:
    """Publish metrics for `fastdist top` and Prometheus if an environment variable requests it."""
    if os.environ.get("FASTDIST_METRICS_PORT") or os.environ.get("FASTDIST_MONITOR_DIR"):
        importlib.import_module(f"{__name__}.monitor").begin()


load_when_rpc_starts(_begin_monitor)
load_when_groups_start(_begin_monitor)


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Import a module, or the module that defines a name, on first access."""
        if name in _ROOMS:
            return importlib.import_module(f"{__name__}.{name}")
        if name in _HOMES:
            found = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
            globals()[name] = found
            return found
        if name.startswith("__"):
            raise missing(__name__, name)
        # _collectives() imports distributed_c10d, which loads the table of refused names.
        if name in _collectives():
            found = getattr(importlib.import_module(f"{__name__}.distributed_c10d"), name)
            # Safe to cache: group.WORLD changes, but the class that contains it stays the same.
            globals()[name] = found
            return found
        from fastdist.core.refused import find_below

        return find_below(__name__, name)


def is_available() -> bool:
    """Return True: the distributed package can be used. PyTorch has the same function.

    Example:
        >>> dist.is_available()
        True
    """
    return True


def is_initialized() -> bool:
    """Return whether this process has a default process group.

    Example:
        >>> dist.is_initialized()
        False
    """
    found = sys.modules.get(f"{__name__}.process_group.world")
    return found is not None and found.is_initialized()


def __dir__() -> list[str]:
    """Return the public modules and names of this package."""
    names = _ROOMS | _HOMES.keys() | _collectives() | {"is_available", "is_initialized"}
    return sorted(name for name in names if not name.startswith("_"))


def _collectives() -> frozenset[str]:
    """Return the names of distributed_c10d that this module offers as well."""
    found: Any = importlib.import_module(f"{__name__}.distributed_c10d")
    names: frozenset[str] = found.OFFERED_ABOVE
    return names
