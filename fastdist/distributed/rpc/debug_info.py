"""A worker's reports about itself: its counters, and data that helps to debug a hang."""

from __future__ import annotations

from typing import Any

from fastdist.core.errors import RpcError
from fastdist.core.folded_frames import folds

from . import agent as agents
from .agent import get_current_agent
from .torch_names.argument_errors import incompatible


@folds
@folds
def get_debug_info() -> dict[str, str]:
    """Return data that helps to debug a hang: metrics, peers, references and contexts.

    Raises  RpcNotRunningError if RPC is not initialized on this worker

    Returns:
        A dict of names and values, both as text: the entries of `get_metrics()`; `agent.peer.NAME`,
        the connection to each worker; `num_owner_rrefs`, `num_forks` and `num_users`, counts of
        remote references; `num_autograd_contexts`. docs/metrics.md explains all entries.

    Example:
        >>> "num_autograd_contexts" in rpc.get_debug_info()
        True
    """
    return agents.DebugInfo(get_current_agent().get_debug_info() | agents.more_debug_info())


@folds
@folds
def get_metrics() -> dict[str, str]:
    """Return this worker's counters, such as the number of threads and of calls under way.

    Raises  RpcNotRunningError if RPC is not initialized on this worker

    Returns:
        A dict of names and numbers, both as text: `agent.thread_pool_size` and
        `agent.num_idle_threads`; `agent.client_active_calls`, calls of this worker without an
        answer; `agent.server_active_calls`, calls of other workers that wait or run here;
        `agent.server_active_async_calls`, those whose Future is not done; and
        `agent.gil_average_wait_time_us` after `enable_gil_profiling(True)`.

    Example:
        >>> int(rpc.get_metrics()["agent.thread_pool_size"]) >= 1
        True
    """
    return get_current_agent().get_metrics()


@folds
@folds
def enable_gil_profiling(flag: bool) -> None:
    """Measure how long requests wait for the interpreter lock, as a metric of the agent.

    Raises  TypeError for a value that is not a bool

    Args:
        flag: Whether to measure.

    Example:
        >>> rpc.enable_gil_profiling(True)
        >>> "agent.gil_average_wait_time_us" in rpc.get_metrics()
        True
        >>> rpc.enable_gil_profiling(False)
    """
    if not isinstance(flag, bool):
        why = "expected True or False"
        raise incompatible("enable_gil_profiling", "(flag: bool) -> None", why, flag)
    agent: Any = get_current_agent()
    if not hasattr(agent, "enable_gil_profiling"):
        raise RpcError(f"the agent {type(agent).__name__} has no such setting")
    agent.enable_gil_profiling(flag)
