"""The distributed half of fastdist: RPC between workers, and automatic differentiation across them.

From the bottom up:

sockets          makes, secures, watches and counts ZeroMQ sockets
store            the small shared dictionary through which the workers of a job find each other
rendezvous.py    the step in which a worker learns its rank and finds the store
restarts.py      workers that come back after a failure
pipe             lanes between two workers, over TCP, Unix sockets or shared memory
arena            memory that processes of one machine share, for large tensors
rpc              calls, remote references, and groups of workers
autograd         backward passes and forward mode across workers
explain          reports on a backward pass: its graph, and where its time went
nn               modules that live on other workers
optim.py         optimizers that step parameters where they live
remote_device.py the place of a remote module: a worker and a device
checkpoint       checkpoints of a whole job
profiler         calls and time lines of several workers
run.py           `python -m fastdist.distributed.run`, and launch.py: PyTorch's names of the
                 launcher

Each subpackage is imported when it is first used. So `import fastdist` loads no ZeroMQ and starts
no thread, and a process that has only imported it may still fork.

docs/glossary.md explains the terms.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from fastdist.core.missing import NO_COLLECTIVES, instead, missing, refusing
from fastdist.system.import_hooks import load_when_rpc_starts

if TYPE_CHECKING:
    from . import autograd as autograd
    from . import checkpoint as checkpoint
    from . import explain as explain
    from . import nn as nn
    from . import optim as optim
    from . import pipe as pipe
    from . import profiler as profiler
    from . import remote_device as remote_device
    from . import rendezvous as rendezvous
    from . import restarts as restarts
    from . import rpc as rpc
    from . import sockets as sockets
    from . import store as store
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
        *("autograd", "checkpoint", "explain", "nn", "optim", "pipe", "profiler"),
        *("remote_device", "rendezvous", "restarts", "rpc", "sockets", "store"),
    }
)

# torch.distributed offers the stores at the top; the name says where each lives here.
_HOMES = {
    "on_restart": "restarts",
    "restart_count": "restarts",
    "FileStore": "store",
    "HashStore": "store",
    "PrefixStore": "store",
    "Store": "store",
    "TCPStore": "store",
    "_remote_device": "remote_device",
}

# Programs import these whether they use them or not.
_COLLECTIVES = (
    "all_gather", "all_gather_object", "all_reduce", "all_to_all", "barrier", "broadcast",
    "broadcast_object_list", "destroy_process_group", "gather", "get_backend", "get_rank",
    "get_world_size", "init_process_group", "irecv", "isend", "new_group", "recv", "reduce",
    "reduce_scatter", "scatter", "send",
)  # fmt: skip
globals().update({name: refusing(__name__, name, NO_COLLECTIVES) for name in _COLLECTIVES})
if TYPE_CHECKING:
    _refused = refusing("", "", "")
    all_gather = _refused
    all_gather_object = _refused
    all_reduce = _refused
    all_to_all = _refused
    barrier = _refused
    broadcast = _refused
    broadcast_object_list = _refused
    destroy_process_group = _refused
    gather = _refused
    get_backend = _refused
    get_rank = _refused
    get_world_size = _refused
    init_process_group = _refused
    irecv = _refused
    isend = _refused
    new_group = _refused
    recv = _refused
    reduce = _refused
    reduce_scatter = _refused
    scatter = _refused
    send = _refused
_LATER = ("DeviceMesh", "ReduceOp", "algorithms", "device_mesh", "fsdp")
instead({f"{__name__}.{name}": NO_COLLECTIVES for name in _LATER})

# A worker that only runs what others ask for takes part in their backward passes all the same.
load_when_rpc_starts(lambda: importlib.import_module(f"{__name__}.autograd"))
# Another worker may explain such a pass: it asks this one for its report.
load_when_rpc_starts(lambda: importlib.import_module(f"{__name__}.explain"))
# And tells those who profile their calls what these take here.
load_when_rpc_starts(lambda: importlib.import_module(f"{__name__}.profiler"))


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Import a room, or the room of a name, when it is first asked for."""
        if name in _ROOMS:
            return importlib.import_module(f"{__name__}.{name}")
        if name in _HOMES:
            found = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
            globals()[name] = found
            return found
        raise missing(__name__, name)


def is_available() -> bool:
    """Return True: as in PyTorch, whether this half of the library can be used."""
    return True


def is_initialized() -> bool:
    """Return False: there is no default process group; RPC's workers meet by rpc.init_rpc."""
    return False


def __dir__() -> list[str]:
    """Return the rooms and the names that can be asked for."""
    return sorted(_ROOMS | _HOMES.keys() | {*_COLLECTIVES} | {"is_available", "is_initialized"})
