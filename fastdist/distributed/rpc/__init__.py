"""Calls between workers: rpc_sync, rpc_async, remote, and what makes them arrive."""

# The design note of this room.
#
# A call is made in `api.py`, packed in `outgoing.py`, sent and waited for in `client.py`. A caller
# that blocks does everything itself on a lane of its own; the Futures of the others are completed
# by the progress thread (`progress.py`). At the other end the pool's leader takes it from the
# listener (`serving.py`) and runs it on the spot (`incoming.py`; core/thread_pool.py, Note [Leader
# and followers]). `body.py` makes bytes of values and of calls, `wire.py` alone looks into Tensors,
# `gate.py` alone decides what may be loaded, and in strict mode `pickle_scan.py` looks at a pickle
# before it is read. `interceptors.py` and `handlers.py` are how autograd, tangents and the profiler
# stand on this room without it knowing them; of what comes in they see only what carries more than
# a value and tensors. `peer.py` watches over one other worker and feeds `peer_state.py`, which is
# pure.
#
# Connections break while both ends live. A call has one id for its whole life, and the callee
# remembers what runs and what it answered (`received_calls.py`, by the lanes of `callers.py`). So a
# caller whose connection was replaced greets again, asks what became of its calls (`inquiry.py`,
# `lane_answer.py`), and sends again what never came: no call runs twice, and none is lost but for
# what is too large to be kept, which fails and says whether it has run.
#
# Who was declared lost and lives (it was frozen, and wakes) hears so from those who gave it up;
# `standing.py` says when it is out. Then it is fenced (`peers.py`): all that it waits for ends with
# a GivenUpError, and so does its shutdown, for whoever started it to start it again.
#
# `joining.py` lets a worker in, `twins.py` tells of two that say they are one, `membership.py`
# knows who is there, `shutdown_barrier.py` how all leave together, and `rref*.py` keep values that
# stay where they are.

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastdist.core.future import Future
from fastdist.core.missing import missing
from fastdist.distributed.pipe.limits import Limits

from . import backend_registry, faulty_agent, functions
from .agent import RpcAgent, add_silence_hook
from .agent import get_current_agent as _get_current_rpc_agent
from .agent import is_current_agent_set as _is_current_rpc_agent_set
from .api import (
    _set_rpc_timeout,
    _wait_all,
    enable_gil_profiling,
    get_rpc_timeout,
    get_worker_info,
    rpc_async,
    rpc_sync,
    shutdown,
)
from .backend_registry import BackendValue
from .gate import allow, export
from .handlers import Reply, register_handler
from .init import init_rpc
from .membership import WorkerInfo
from .message_types import MessageType
from .options import RpcBackendOptions, TensorPipeRpcBackendOptions, ZmqRpcBackendOptions
from .remote import remote
from .rref import RRef
from .zmq_agent import ZmqAgent

TensorPipeAgent = ZmqAgent
PyRRef = RRef  # both names stand in PyTorch's annotations

__all__ = [
    "BackendType",
    "BackendValue",
    "Future",
    "Limits",
    "MessageType",
    "PyRRef",
    "RRef",
    "Reply",
    "RpcAgent",
    "RpcBackendOptions",
    "TensorPipeAgent",
    "TensorPipeRpcBackendOptions",
    "WorkerInfo",
    "ZmqAgent",
    "ZmqRpcBackendOptions",
    "_get_current_rpc_agent",
    "_get_debug_info",
    "_is_current_rpc_agent_set",
    "_rref_context_get_debug_info",
    "_set_rpc_timeout",
    "_wait_all",
    "add_silence_hook",
    "allow",
    "backend_registry",
    "enable_gil_profiling",
    "export",
    "faulty_agent",
    "functions",
    "get_rpc_timeout",
    "get_worker_info",
    "init_rpc",
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
    info: dict[str, str] = _get_current_rpc_agent().rrefs.get_debug_info()
    return info


def _get_debug_info() -> dict[str, str]:
    return _get_current_rpc_agent().get_debug_info()


if TYPE_CHECKING:
    BackendType: Any
else:

    def __getattr__(name: str) -> object:
        # Each registration makes a new BackendType, so it is looked up when it is asked for.
        if name == "BackendType":
            return backend_registry.BackendType
        raise missing(__name__, name)


def __dir__() -> list[str]:
    """Return the names that can be asked for."""
    return sorted({*globals(), "BackendType"})
