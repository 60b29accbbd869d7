"""Calls between workers: rpc_sync, rpc_async and remote, and everything that makes them arrive.

The public names are in api.py, options.py, functions.py and init.py. Each of these packages uses
only those before it (the files of the last two belong to several levels):

message/        what a message holds, its bytes, and which values may be loaded
workers/        the workers of the group, and how each of their lives begins, fares and ends
calls/          calls that are made here, and calls that run here
references/     values that stay where they are: RRefs
gpu_transport/  tensors of GPUs
torch_names/    PyTorch's semi-private modules

agent.py joins them, and holds what every agent does. zmq_agent.py is the agent that uses ZeroMQ.

call_arguments.py    the worker, the function and the arguments that a user names for a call
wait_all.py          a block that waits for the calls made in it
init.py              joins a group and starts the agent
leaving.py           leaves the group, in stages; shutdown_barrier.py: all members wait until no
                     call is under way, with the reports of shutdown_reports.py; closing.py: the
                     steps that close an agent
process_end.py       notices that a process ends without rpc.shutdown(), and why
lost_workers.py      the workers that were lost, for errors of a shutdown
hang_reports.py      reports workers that do not answer to the launcher
notices.py           notices to other workers that nobody waits for
arena_offers.py      how two workers come to share memory
handlers.py          which function answers which kind of request
interceptors.py      how autograd, forward mode and the profiler add to messages; rpc does not
                     import them
devices.py           checks that device maps name existing devices
metrics.py           counts for get_metrics(); debug_log.py: the log at DEBUG
constants.py         defaults, under PyTorch's names

A blocking caller does all its work itself, in its own thread, on a lane that it borrows. The
progress thread completes the Futures of all other calls. At the callee, the leader of the thread
pool takes a request from the listener and runs it at once (concurrency/thread_pool.py, Note
[Leader and followers]), so a call needs no hand-over between threads at either end. Between
workers of one machine messages go through shared memory (pipe/ring), otherwise through ZeroMQ.

A connection may break while both workers live. A call keeps one id for its whole life, and the
callee remembers which calls run and what it answered (workers/callers.py). When the caller connects
again it queries the fate of its calls (workers/reconciliation.py). So no call runs twice. A call
fails only if its answer was too large to be kept; the error then says whether it has run.

A worker that was declared lost, but lives, is fenced (workers/workers.py): everything that it waits
for fails with a GivenUpError. It can join again as a new life (workers/joining.py).

The order of locks is in tests/distributed/lock_table.py, and how long anything is waited for in
tests/distributed/time_table.py. docs/glossary.md explains the terms.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from fastdist.concurrency.future import Future
from fastdist.core.missing import find_late, show_public
from fastdist.core.module_aliases import alias_modules

from . import api, constants, functions
from .agent import RpcAgent
from .agent import get_current_agent as _get_current_rpc_agent
from .agent import is_current_agent_set as _is_current_rpc_agent_set
from .api import (
    _set_rpc_timeout,
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
from .torch_names.private_calls import (
    _delete_all_user_and_unforked_owner_rrefs,
    _invoke_remote_builtin,
    _invoke_remote_python_udf,
    _invoke_remote_torchscript,
    _invoke_rpc_builtin,
    _invoke_rpc_python_udf,
    _invoke_rpc_torchscript,
)
from .torch_names.remote_profiler_manager import RemoteProfilerManager
from .wait_all import wait_for_calls as _wait_all
from .workers.hooks import add_silence_hook
from .workers.record import WorkerInfo
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
        # Each registration makes a new BackendType, so it is looked up on each access.
        if name == "BackendType":
            return backend_registry.BackendType
        if name == "_server_process_global_profile":
            # Its module is above this package: it uses the profiler.
            above = importlib.import_module(f"{__name__}.server_process_global_profiler")
            return above._server_process_global_profile
        if name in _ALIASES:
            return importlib.import_module(f"{__name__}.{name}")
        return find_late(__name__, name)


show_public(__name__)
