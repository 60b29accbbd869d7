"""Calls between workers: rpc_sync, rpc_async, remote, and what makes them arrive."""

# The design note of this room.
#
# Each folder stands on those before it. `message/` packs and opens what goes to and fro, and
# decides what may be loaded. `workers/` has the workers of the group, each life of one a `Worker`
# on which all hangs that this one keeps of it. `calls/` makes calls and runs those of others, and
# `references/` keeps values that stay where they are. The agent joins them (`agent.py` is what it
# does for all rooms, `zmq_agent.py` how it begins and ends, `leaving.py` how it leaves its group,
# `shutdown_barrier.py` how all members wait until no call is under way), and users name what is in
# `api.py`, `options.py`, `functions.py` and `init.py`.
#
# A caller that blocks does everything itself on a lane of its own; the Futures of the others are
# completed by the progress thread. At the other end the pool's leader takes a call from the
# listener and runs it on the spot (concurrency/thread_pool.py, Note [Leader and followers]). Between
# workers of one host messages go through shared memory (pipe/ring/, Note [Rings]), else by ZeroMQ.
# `interceptors.py` and `handlers.py` are how autograd, tangents and the profiler stand on this room
# without it knowing them; of what comes in they see only what carries more than a value and
# tensors. Large tensors go in the message or by the arena: `options.py` has the names of both, and
# `arena_offers.py` is how two workers come to share memory, `gpu_transport/` how they share that of
# GPUs. What others should hear, and nobody waits for (a reference, a context or a level is over, a
# pass has failed), goes by `notices.py`.
#
# Connections break while both ends live. A call has one id for its whole life, and the callee knows
# what runs and what it answered (workers/callers.py): whoever greets again asks what became of its
# calls (workers/reconciliation.py). So none runs twice, and none is lost but for what is too large
# to be kept, which fails and says whether it has run.
#
# Who was declared lost and lives is fenced (workers/workers.py): all that it waits for ends with a
# GivenUpError. It comes back as another life (workers/joining.py).

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from fastdist.concurrency.future import Future
from fastdist.core.missing import missing
from fastdist.core.module_aliases import alias_modules

from . import api, constants, functions
from .agent import RpcAgent
from .agent import get_current_agent as _get_current_rpc_agent
from .agent import is_current_agent_set as _is_current_rpc_agent_set
from .api import (
    _delete_all_user_and_unforked_owner_rrefs,
    _invoke_remote_builtin,
    _invoke_remote_python_udf,
    _invoke_remote_torchscript,
    _invoke_rpc_builtin,
    _invoke_rpc_python_udf,
    _invoke_rpc_torchscript,
    _set_rpc_timeout,
    _wait_all,
    enable_gil_profiling,
    get_debug_info,
    get_metrics,
    get_rpc_timeout,
    get_worker_info,
    remote,
    rpc_async,
    rpc_sync,
    shutdown,
)
from .constants import DEFAULT_INIT_METHOD as _DEFAULT_INIT_METHOD
from .constants import DEFAULT_NUM_WORKER_THREADS as _DEFAULT_NUM_WORKER_THREADS
from .constants import DEFAULT_RPC_TIMEOUT_SEC as _DEFAULT_RPC_TIMEOUT_SEC
from .constants import UNSET_RPC_TIMEOUT as _UNSET_RPC_TIMEOUT
from .handlers import Reply, register_handler
from .init import init_rpc
from .message.gate import allow, export
from .message.limits import Limits
from .message.types import MessageType
from .options import RpcBackendOptions, TensorPipeRpcBackendOptions, ZmqRpcBackendOptions
from .references.rref import RRef
from .torch_names import ALIASES as _ALIASES
from .torch_names import _testing, backend_registry, faulty_agent, internal
from .torch_names.backend_registry import BackendValue
from .torch_names.remote_profiler_manager import RemoteProfilerManager
from .workers.record import WorkerInfo
from .workers.workers import add_silence_hook
from .zmq_agent import ZmqAgent

alias_modules({f"{__name__}.{name}": f"{__name__}.torch_names.{name}" for name in _ALIASES})

TensorPipeAgent = ZmqAgent
PyRRef = RRef  # both names stand in PyTorch's annotations

__all__ = [
    "_DEFAULT_INIT_METHOD",
    "_DEFAULT_NUM_WORKER_THREADS",
    "_DEFAULT_RPC_TIMEOUT_SEC",
    "_UNSET_RPC_TIMEOUT",
    "BackendType",
    "BackendValue",
    "Future",
    "Limits",
    "MessageType",
    "PyRRef",
    "RRef",
    "RemoteProfilerManager",
    "Reply",
    "RpcAgent",
    "RpcBackendOptions",
    "TensorPipeAgent",
    "TensorPipeRpcBackendOptions",
    "WorkerInfo",
    "ZmqAgent",
    "ZmqRpcBackendOptions",
    "_delete_all_user_and_unforked_owner_rrefs",
    "_get_current_rpc_agent",
    "_get_debug_info",
    "_invoke_remote_builtin",
    "_invoke_remote_python_udf",
    "_invoke_remote_torchscript",
    "_invoke_rpc_builtin",
    "_invoke_rpc_python_udf",
    "_invoke_rpc_torchscript",
    "_is_current_rpc_agent_set",
    "_rref_context_get_debug_info",
    "_set_rpc_timeout",
    "_testing",
    "_wait_all",
    "add_silence_hook",
    "allow",
    "api",
    "backend_registry",
    "constants",
    "enable_gil_profiling",
    "export",
    "faulty_agent",
    "functions",
    "get_debug_info",
    "get_metrics",
    "get_rpc_timeout",
    "get_worker_info",
    "init_rpc",
    "internal",
    "is_available",
    "register_handler",
    "remote",
    "rpc_async",
    "rpc_sync",
    "shutdown",
]


def is_available() -> bool:
    """Return whether this build has RPC; every one has."""
    return True


def _rref_context_get_debug_info() -> dict[str, str]:
    return _get_current_rpc_agent().rrefs.get_debug_info()


_get_debug_info = get_debug_info


if TYPE_CHECKING:
    BackendType: Any
    _server_process_global_profile: Any
else:

    def __getattr__(name: str) -> object:
        # Each registration makes a new BackendType, so it is looked up when it is asked for.
        if name == "BackendType":
            return backend_registry.BackendType
        if name == "_server_process_global_profile":
            # Its module is above this package: it uses the profiler.
            above = importlib.import_module(f"{__name__}.server_process_global_profiler")
            return above._server_process_global_profile
        if name in _ALIASES:
            return importlib.import_module(f"{__name__}.{name}")
        raise missing(__name__, name)


def __dir__() -> list[str]:
    """Return the names that can be asked for."""
    return sorted({*globals(), "BackendType", "_server_process_global_profile"})
