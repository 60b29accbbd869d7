"""Calls between workers: rpc_sync, rpc_async and remote, and the code that delivers them.

The public names are in api.py, options.py, functions.py and init.py. Each package in this list uses
only packages above it, except for files of the last two packages, which belong to several levels:

message/        the contents of a message, its bytes, and which values may be loaded
workers/        the workers of the group, and how each life of a worker begins, proceeds and ends
calls/          calls that this worker makes, and calls that run here
references/     values that stay at their owner: RRefs
gpu_transport/  tensors of GPUs
torch_names/    PyTorch's semi-private modules

agent.py combines these packages: it is the interface of all agents. zmq_agent.py is the agent for
ZeroMQ.

call_arguments.py    checks the worker, the function and the arguments that a user passes to a call
wait_all.py          a block that waits for the calls made in it
init.py              joins a group and starts the agent
leaving.py           leaves the group, in stages
shutdown_barrier.py  waits until no member has a call under way; shutdown_reports.py: the reports
                     that members send to this barrier
closing.py           the steps that close an agent
process_end.py       detects that this process ends without rpc.shutdown(), and the reason
lost_workers.py      lists the lost workers, for errors of a shutdown
notices.py           sends notices to other workers without waiting for an answer
arena_offers.py      the handshake by which two workers share memory
handlers.py          maps each kind of request to the function that answers it
interceptors.py      how autograd, forward mode and the profiler add data to messages; rpc does not
                     import these packages
devices.py           checks that device maps name existing devices
debug_info.py        get_debug_info and get_metrics; metrics.py: the counters;
                     debug_log.py: the log at DEBUG
constants.py         defaults, under PyTorch's names

A blocking caller does all the work of its call in its own thread, on a lane that it borrows. The
progress thread completes the Futures of all other calls. At the callee, the leader of the thread
pool takes a request from the listener and runs it directly (concurrency/thread_pool.py, Note
[Leader and followers]). So neither worker hands a call from one thread to another. Messages between
workers of one machine go through shared memory (pipe/ring), other messages through ZeroMQ.

A connection may break while both workers live. A call keeps one id until it ends, and the callee
remembers the calls that run and the answers that it sent (workers/callers.py). When the caller
connects again, it queries the state of its calls (workers/reconciliation.py). So no call runs
twice. After a broken connection, a call fails only if its answer was too large to be kept; the
error then says whether the call ran.

A worker that was declared lost but still runs is fenced (workers/workers.py): everything that it
waits for fails with a GivenUpError. It can join again as a new life (workers/joining.py).

tests/distributed/lock_table.py has the order of locks, and tests/distributed/time_table.py has all
timeouts. docs/glossary.md explains the terms.
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
PyRRef = RRef  # PyTorch's annotations use both names

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
    """Return whether this build has RPC: always True."""
    return True


def _rref_context_get_debug_info() -> dict[str, str]:
    return _get_current_rpc_agent().rrefs.get_debug_info()


_get_debug_info = get_debug_info


if TYPE_CHECKING:
    BackendType: Any
    _server_process_global_profile: Any
else:

    def __getattr__(name: str) -> object:
        # Each registration makes a new BackendType, so a cached class would be outdated.
        if name == "BackendType":
            return backend_registry.BackendType
        if name == "_server_process_global_profile":
            # The module below uses the profiler, a layer above rpc: import it on demand.
            above = importlib.import_module(f"{__name__}.server_process_global_profiler")
            return above._server_process_global_profile
        if name in _ALIASES:
            return importlib.import_module(f"{__name__}.{name}")
        return find_late(__name__, name)


show_public(__name__)
