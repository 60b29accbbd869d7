"""The calls that users make: rpc_sync, rpc_async, get_worker_info, shutdown."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

from fastdist.core.errors import RpcError
from fastdist.core.future import Future, wait_all

from . import agent as agents
from . import constants
from .agent import RpcAgent, get_current_agent
from .durations import seconds
from .membership import WorkerInfo

__all__ = [
    "get_rpc_timeout",
    "get_worker_info",
    "rpc_async",
    "rpc_sync",
    "shutdown",
]

To: TypeAlias = str | int | WorkerInfo

_collecting = threading.local()


def rpc_sync(
    to: To,
    func: Callable[..., Any],
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    timeout: float = constants.UNSET_RPC_TIMEOUT,
) -> Any:
    """Run func(*args, **kwargs) on worker `to`, wait, and return its result.

    Units   timeout in seconds; 0 waits for ever, the default is the options' rpc_timeout
    Raises  what func raises, with its type and its traceback as a note; RpcTimeoutError;
            WorkerLostError naming the worker
    """
    agent = get_current_agent()
    info = worker_to_call(agent, to, func)
    args = () if args is None else arguments_of(args)
    kwargs = {} if kwargs is None else keywords_of(kwargs)
    return agent.call(info, func, args, kwargs, timeout)


def rpc_async(
    to: To,
    func: Callable[..., Any],
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    timeout: float = constants.UNSET_RPC_TIMEOUT,
) -> Future[Any]:
    """Run func(*args, **kwargs) on worker `to` and return a Future of its result.

    Note    arguments are copied before this returns, and may be changed right after
    """
    agent = get_current_agent()
    info = worker_to_call(agent, to, func)
    args = () if args is None else arguments_of(args)
    kwargs = {} if kwargs is None else keywords_of(kwargs)
    future = agent.call_async(info, func, args, kwargs, timeout)
    futures = getattr(_collecting, "futures", None)
    if futures is not None:
        futures.append(future)
    return future


def get_worker_info(worker_name: To | None = None) -> WorkerInfo:
    """Return the WorkerInfo of a name, or this worker's own.

    Raises  RpcError for an unknown name
    """
    return get_current_agent().get_worker_info(worker_name)


def shutdown(graceful: bool = True, timeout: float = constants.DEFAULT_SHUTDOWN_TIMEOUT) -> None:
    """Leave the group; if graceful, after all workers have come here and no call is under way.

    A worker that was lost is not waited for: whoever called it has got a WorkerLostError. That this
    worker shuts down without it is no error, but logged as a warning with its name and how it was
    lost, since a worker that only serves hears of it nowhere else. After 5 s, and then after twice
    the time each time, a line says for whom it waits.

    Units   timeout in seconds, for all of the waiting; 0, the default, waits for the others to come
            here as long as they live, and 15 s for what is under way then
    Raises  ShutdownIncomplete naming who did not come; RPC is shut down all the same
    """
    agent = get_current_agent()
    timeout = seconds("timeout", timeout)
    try:
        if graceful:
            # First all of users' calls end, everywhere; then all give up their references and the
            # store, and what that sends ends as well.
            began = time.monotonic()
            agent.join(timeout)
            began = began if timeout else time.monotonic()
            deadline = began + (timeout or constants.SHUTDOWN_TIMEOUT_S)
            agent.prepare_to_leave(deadline)
            agent.join(max(1.0, deadline - time.monotonic()))
            agent.part()
    finally:
        _end(agent)


def get_rpc_timeout() -> float:
    """Return the timeout in seconds of calls that give none."""
    return get_current_agent().get_rpc_timeout()


def _set_rpc_timeout(timeout: float) -> None:
    """Change the timeout of calls that give none."""
    _zmq_agent().set_rpc_timeout(timeout)


def enable_gil_profiling(flag: bool) -> None:
    """Measure how long requests wait for the interpreter lock, as a metric of the agent."""
    _zmq_agent().enable_gil_profiling(flag)


@contextmanager
def _wait_all() -> Iterator[None]:
    """Wait, at the end of the block, for all Futures that rpc_async gave to this thread in it."""
    _collecting.futures = []
    try:
        yield
    finally:
        futures = _collecting.futures
        del _collecting.futures
        wait_all(futures)


def _end(agent: RpcAgent) -> None:
    try:
        agent.shutdown()
    finally:
        agents.set_current_agent(None)
        agents.run_stop_hooks()


def worker_to_call(agent: RpcAgent, to: To, func: object) -> WorkerInfo:
    """Return the worker that a user means.

    Raises  TypeError if func cannot be called; ValueError or RpcError for no worker
    """
    if not callable(func):
        raise TypeError(f"function should be callable. Got {func!r}")
    if to.__class__ is WorkerInfo:
        return to
    if not isinstance(to, (str, int, WorkerInfo)):
        raise ValueError(f"Cannot get WorkerInfo from name {to}")
    return agent.get_worker_info(to)


def arguments_of(args: Sequence[Any] | None) -> Sequence[Any]:
    """Return the positional arguments that a user gave.

    Raises  TypeError for what is no tuple or list: of a lone argument the comma is easily forgotten
    """
    if args is None:
        return ()
    if args.__class__ is tuple or isinstance(args, (tuple, list)):
        return args
    raise TypeError(f"args must be a tuple, got {type(args).__name__}: write args=(x,) for one")


def keywords_of(kwargs: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return the keyword arguments that a user gave.

    Raises  TypeError for what is no mapping
    """
    if kwargs is None:
        return {}
    if kwargs.__class__ is dict:
        return kwargs
    if isinstance(kwargs, Mapping):
        return dict(kwargs)
    raise TypeError(f"kwargs must be a dict of names and values, got {type(kwargs).__name__}")


def _zmq_agent() -> Any:
    agent = get_current_agent()
    if not hasattr(agent, "set_rpc_timeout"):
        raise RpcError(f"the agent {type(agent).__name__} has no such setting")
    return agent
