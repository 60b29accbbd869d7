"""The calls that users make: rpc_sync, rpc_async, remote, get_worker_info, shutdown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, TypeVarTuple, overload

from fastdist.concurrency.future import Future
from fastdist.concurrency.lent_locks import lend_held_locks
from fastdist.core.errors import FastdistError, RpcError
from fastdist.core.folded_frames import fold, folds
from fastdist.core.missing import find_late

from . import agent as agents
from . import constants
from .agent import RpcAgent, get_current_agent
from .call_arguments import To, arguments_of, keywords_of, worker_to_call
from .constants import UNSET_RPC_TIMEOUT as UNSET_RPC_TIMEOUT
from .debug_info import enable_gil_profiling as enable_gil_profiling
from .debug_info import get_debug_info as get_debug_info
from .debug_info import get_metrics as get_metrics
from .references.rref import RRef, late_bound
from .torch_names.argument_errors import seconds
from .torch_names.gather import AllGatherStates, all_gather
from .torch_names.internal import _internal_rpc_pickler, _use_rpc_pickler, current
from .torch_names.private_calls import (
    _delete_all_user_and_unforked_owner_rrefs as _delete_all_user_and_unforked_owner_rrefs,
)
from .torch_names.private_calls import _invoke_remote_builtin as _invoke_remote_builtin
from .torch_names.private_calls import _invoke_remote_python_udf as _invoke_remote_python_udf
from .torch_names.private_calls import _invoke_remote_torchscript as _invoke_remote_torchscript
from .torch_names.private_calls import _invoke_rpc_builtin as _invoke_rpc_builtin
from .torch_names.private_calls import _invoke_rpc_python_udf as _invoke_rpc_python_udf
from .torch_names.private_calls import _invoke_rpc_torchscript as _invoke_rpc_torchscript
from .torch_names.private_calls import _require_initialized as _require_initialized
from .torch_names.private_calls import _rref_typeof_on_owner as _rref_typeof_on_owner
from .torch_names.private_calls import _rref_typeof_on_user as _rref_typeof_on_user
from .torch_names.remote_profiler_manager import RemoteProfilerManager
from .wait_all import futures_of_block, wait_for_calls
from .workers.record import WorkerInfo

P = ParamSpec("P")
R = TypeVar("R")
Ts = TypeVarTuple("Ts")
Args = Sequence[Any] | None
Kwargs = Mapping[str, Any]

__all__ = [
    "AllGatherStates",
    "RRef",
    "RemoteProfilerManager",
    "_internal_rpc_pickler",
    "_use_rpc_pickler",
    "get_debug_info",
    "get_metrics",
    "get_rpc_timeout",
    "get_worker_info",
    "remote",
    "rpc_async",
    "rpc_sync",
    "shutdown",
]
# Whether shutdown tolerates RRefs to this worker's values that other workers still hold.
_ignore_rref_leak = True
_all_gather = all_gather
_thread_local_var, _wait_all = futures_of_block, wait_for_calls
_get_current_rpc_agent = get_current_agent
_is_current_rpc_agent_set = agents.is_current_agent_set


# The overloads below declare the types of calls. Type checkers compare a tuple of arguments with
# the parameters of the function; they do not compare a list or keyword arguments. A function that
# returns a Future must be decorated with async_execution; the caller then gets the Future's value.
@overload
def rpc_sync(
    to: To,
    func: Callable[[*Ts], Future[R]],
    args: tuple[*Ts],
    kwargs: None = None,
    timeout: float = ...,
) -> R: ...
@overload
def rpc_sync(
    to: To, func: Callable[[*Ts], R], args: tuple[*Ts], kwargs: None = None, timeout: float = ...
) -> R: ...
@overload
def rpc_sync(
    to: To,
    func: Callable[[], Future[R]],
    args: None = None,
    kwargs: None = None,
    timeout: float = ...,
) -> R: ...
@overload
def rpc_sync(
    to: To, func: Callable[[], R], args: None = None, kwargs: None = None, timeout: float = ...
) -> R: ...
@overload
def rpc_sync(
    to: To,
    func: Callable[..., Future[R]],
    args: list[Any],
    kwargs: None = None,
    timeout: float = ...,
) -> R: ...
@overload
def rpc_sync(
    to: To, func: Callable[..., R], args: list[Any], kwargs: None = None, timeout: float = ...
) -> R: ...
@overload
def rpc_sync(
    to: To, func: Callable[..., Future[R]], args: Args, kwargs: Kwargs, timeout: float = ...
) -> R: ...
@overload
def rpc_sync(
    to: To, func: Callable[..., R], args: Args, kwargs: Kwargs, timeout: float = ...
) -> R: ...
@overload
def rpc_sync(
    to: To,
    func: Callable[..., Future[R]],
    args: Args = None,
    *,
    kwargs: Kwargs,
    timeout: float = ...,
) -> R: ...
@overload
def rpc_sync(
    to: To, func: Callable[..., R], args: Args = None, *, kwargs: Kwargs, timeout: float = ...
) -> R: ...
def rpc_sync(
    to: To,
    func: Callable[..., Any],
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    timeout: float = constants.UNSET_RPC_TIMEOUT,
) -> Any:
    """Run func(*args, **kwargs) on worker `to`, wait, and return its result.

    Units   timeout in seconds; 0 waits forever, the default is the options' rpc_timeout
    Raises  the exception of func, with its type, and its traceback as a note; RpcTimeoutError;
            WorkerLostError naming the worker; RpcNotRunningError before init_rpc; RpcError for an
            unknown worker, and for an argument that cannot be pickled

    Args:
        to: The name, id or WorkerInfo of the callee; may be this worker.
        func: A function that the callee can import, a Tensor method, or a builtin.
        args: Its positional arguments, as a tuple or a list; none if None. Inside a context,
            tensors keep their history.
        kwargs: The keyword arguments of func; none if None.
        timeout: Seconds until RpcTimeoutError; 0 waits forever, -1 takes the options' rpc_timeout
            (60).

    Returns:
        The result of func, copied to this worker.

    Threads: any

    Example:
        >>> rpc.rpc_sync("worker0", torch.add, args=(torch.ones(2), 2))
        tensor([3., 3.])
        >>> rpc.rpc_sync("worker0", max, args=(3, 5))
        5
    """
    try:
        agent = get_current_agent()
        info = worker_to_call(agent, to, func)
        given = (info, func, arguments_of(args), keywords_of(kwargs), timeout)
        return agent.client.users.call(*given)
    except Exception as error:
        fold(error)
        raise


@overload
def rpc_async(
    to: To,
    func: Callable[[*Ts], Future[R]],
    args: tuple[*Ts],
    kwargs: None = None,
    timeout: float = ...,
) -> Future[R]: ...
@overload
def rpc_async(
    to: To, func: Callable[[*Ts], R], args: tuple[*Ts], kwargs: None = None, timeout: float = ...
) -> Future[R]: ...
@overload
def rpc_async(
    to: To,
    func: Callable[[], Future[R]],
    args: None = None,
    kwargs: None = None,
    timeout: float = ...,
) -> Future[R]: ...
@overload
def rpc_async(
    to: To, func: Callable[[], R], args: None = None, kwargs: None = None, timeout: float = ...
) -> Future[R]: ...
@overload
def rpc_async(
    to: To,
    func: Callable[..., Future[R]],
    args: list[Any],
    kwargs: None = None,
    timeout: float = ...,
) -> Future[R]: ...
@overload
def rpc_async(
    to: To, func: Callable[..., R], args: list[Any], kwargs: None = None, timeout: float = ...
) -> Future[R]: ...
@overload
def rpc_async(
    to: To, func: Callable[..., Future[R]], args: Args, kwargs: Kwargs, timeout: float = ...
) -> Future[R]: ...
@overload
def rpc_async(
    to: To, func: Callable[..., R], args: Args, kwargs: Kwargs, timeout: float = ...
) -> Future[R]: ...
@overload
def rpc_async(
    to: To,
    func: Callable[..., Future[R]],
    args: Args = None,
    *,
    kwargs: Kwargs,
    timeout: float = ...,
) -> Future[R]: ...
@overload
def rpc_async(
    to: To, func: Callable[..., R], args: Args = None, *, kwargs: Kwargs, timeout: float = ...
) -> Future[R]: ...
def rpc_async(
    to: To,
    func: Callable[..., Any],
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    timeout: float = constants.UNSET_RPC_TIMEOUT,
) -> Future[Any]:
    """Run func(*args, **kwargs) on worker `to` and return a Future of its result.

    Note    arguments are copied before this function returns, and may be changed afterwards
    Raises  RpcNotRunningError if RPC is not initialized on this worker; RpcError if the worker is
            unknown, or func or an argument cannot be pickled; TypeError if func is not callable,
            args is neither a tuple nor a list, or kwargs is not a dict

    Args:
        to: The name, id or WorkerInfo of the callee; may be this worker.
        func: A function that the callee can import, a Tensor method, or a builtin.
        args: The positional arguments of func, as a tuple or a list; none if None.
        kwargs: The keyword arguments of func; none if None.
        timeout: Seconds until RpcTimeoutError; 0 waits forever, -1 takes the options' rpc_timeout
            (60).

    Returns:
        A Future: `wait()` returns the result, or raises the exception of func.

    Threads: any

    Example:
        >>> future = rpc.rpc_async("worker0", torch.add, args=(torch.ones(2), 1))
        >>> future.wait()
        tensor([2., 2.])
    """
    try:
        agent = get_current_agent()
        info = worker_to_call(agent, to, func)
        given = info, func, arguments_of(args), keywords_of(kwargs), timeout
        future: Future[Any] = agent.client.users.call_async(*given)
        futures = getattr(futures_of_block, "future_list", None)
        if futures is not None:
            futures.append(future)
        return future
    except Exception as error:
        fold(error)
        raise


@overload
def remote(
    to: To,
    func: Callable[[*Ts], Future[R]],
    args: tuple[*Ts],
    kwargs: None = None,
    timeout: float = ...,
) -> RRef[R]: ...
@overload
def remote(
    to: To, func: Callable[[*Ts], R], args: tuple[*Ts], kwargs: None = None, timeout: float = ...
) -> RRef[R]: ...
@overload
def remote(
    to: To,
    func: Callable[[], Future[R]],
    args: None = None,
    kwargs: None = None,
    timeout: float = ...,
) -> RRef[R]: ...
@overload
def remote(
    to: To, func: Callable[[], R], args: None = None, kwargs: None = None, timeout: float = ...
) -> RRef[R]: ...
@overload
def remote(
    to: To,
    func: Callable[..., Future[R]],
    args: list[Any],
    kwargs: None = None,
    timeout: float = ...,
) -> RRef[R]: ...
@overload
def remote(
    to: To, func: Callable[..., R], args: list[Any], kwargs: None = None, timeout: float = ...
) -> RRef[R]: ...
@overload
def remote(
    to: To, func: Callable[..., Future[R]], args: Args, kwargs: Kwargs, timeout: float = ...
) -> RRef[R]: ...
@overload
def remote(
    to: To, func: Callable[..., R], args: Args, kwargs: Kwargs, timeout: float = ...
) -> RRef[R]: ...
@overload
def remote(
    to: To,
    func: Callable[..., Future[R]],
    args: Args = None,
    *,
    kwargs: Kwargs,
    timeout: float = ...,
) -> RRef[R]: ...
@overload
def remote(
    to: To, func: Callable[..., R], args: Args = None, *, kwargs: Kwargs, timeout: float = ...
) -> RRef[R]: ...
def remote(
    to: To,
    func: Callable[..., Any],
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    timeout: float = constants.UNSET_RPC_TIMEOUT,
) -> RRef[Any]:
    """Run func(*args, **kwargs) on worker `to`; return an RRef to its result without waiting.

    Note    an exception of func is raised by to_here
    Raises  RpcNotRunningError if RPC is not initialized on this worker; RpcError if the worker is
            unknown, or func or an argument cannot be pickled; TypeError if func is not callable,
            args is neither a tuple nor a list, or kwargs is not a dict

    Args:
        to: The name, id or WorkerInfo of the owner; may be this worker.
        func: A function that the owner can import, or a class, of which an object is created.
        args: The positional arguments of func, as a tuple or a list; none if None.
        kwargs: The keyword arguments of func; none if None.
        timeout: Seconds that the owner may take to create the value; 0 sets no limit, -1 takes the
            options' rpc_timeout (60).

    Returns:
        A reference; `to_here()` copies the value, `rpc_sync().method()` calls a method on the
        owner.

    Threads: any

    Example:
        >>> rref = rpc.remote("worker0", torch.zeros, args=(2,))
        >>> rref.to_here()
        tensor([0., 0.])
        >>> rref.rpc_sync().size(0)
        2
    """
    try:
        agent = get_current_agent()
        info = worker_to_call(agent, to, func)
        given = info, func, arguments_of(args), keywords_of(kwargs), timeout
        return agent.client.users.create_remote(*given)  # type: ignore[no-any-return]
    except Exception as error:
        fold(error)
        raise


@folds
def get_worker_info(worker_name: To | None = None) -> WorkerInfo:
    """Return the WorkerInfo of the worker with a name or id, or of this worker.

    Raises  RpcError for an unknown name; TypeError for a value that is not a name, id or
            WorkerInfo; RpcNotRunningError if RPC is not initialized on this worker

    Args:
        worker_name: The name, id or WorkerInfo of a worker; this worker if None.

    Returns:
        A WorkerInfo with the fields `name` and `id`.

    Example:
        >>> rpc.get_worker_info()
        WorkerInfo(id=0, name=worker0)
    """
    return get_current_agent().get_worker_info(worker_name)


@folds
def shutdown(graceful: bool = True, timeout: float = constants.DEFAULT_SHUTDOWN_TIMEOUT) -> None:
    """Leave the group; if graceful, after all workers have called this and no call is under way.

    A group without a world size has no barrier: its members come and go. A member that leaves waits
    for the calls that it made and for the calls that it serves. It answers the served calls,
    releases its references, and ends when the callers have read the answers. A later call to this
    member fails with a WorkerLostError without having run.

    The barrier does not wait for a lost worker. A worker is lost if it gives no sign of life, or if
    its process ended before its own shutdown: it was killed, or ended by an exception, sys.exit()
    or os._exit(). A warning in the log names the lost worker and the reason. The shutdown of all
    other workers raises an error, because work of the lost worker may be unfinished, and a worker
    that only serves calls does not notice the loss otherwise. If a launcher watches the workers, or
    the group has no world size, there is a warning but no error. With the option `restarts`,
    shutdown gives a lost worker 60 s, or half of the timeout, to come back. After 5 s, and then at
    doubling intervals, a log line names the workers for which shutdown waits.

    A function decorated with async_execution whose Future has no value holds up the shutdown while
    its caller waits. If the caller has given up, a warning names the function.

    If a signal handler raises during the shutdown, the wait ends and RPC stays up: call shutdown()
    again to end RPC. A handler may call shutdown() itself.

    Units   timeout in seconds, for the whole wait. 0, the default, waits for the other workers as
            long as they live, and then 15 s for calls under way
    Raises  ShutdownIncomplete naming the workers that did not call shutdown, the calls that did not
            end, or the workers that were lost; RPC is shut down in any case; RpcNotRunningError if
            RPC is not initialized on this worker
    Source  PyTorch, torch/distributed/rpc/api.py, shutdown: in PyTorch, too, a group without a
            world size has no barrier

    Args:
        graceful: Whether to wait for all other workers; if False, this worker leaves immediately.
        timeout: The longest wait, in seconds; 0 waits as long as the other workers live.

    Example:
        >>> import tempfile
        >>> place = f"file://{tempfile.mkdtemp()}/store"
        >>> options = rpc.TensorPipeRpcBackendOptions(init_method=place)
        >>> rpc.init_rpc("worker0", rank=0, world_size=1, rpc_backend_options=options)
        >>> rpc.shutdown()
    """
    agent = get_current_agent()
    timeout = seconds("timeout", timeout)
    with lend_held_locks():  # a signal handler may call shutdown while this thread holds locks
        try:
            if graceful:
                agent.leave(timeout)
        except FastdistError:
            _end(agent)
            raise
        # Not reached after an exception of a signal handler: RPC stays up for a second shutdown.
        _end(agent)


@folds
def get_rpc_timeout() -> float:
    """Return the default timeout of calls, in seconds.

    Raises  RpcNotRunningError if RPC is not initialized on this worker

    Example:
        >>> rpc.get_rpc_timeout()
        60.0
    """
    return get_current_agent().get_rpc_timeout()


def _set_rpc_timeout(timeout: float) -> None:
    """Change the default timeout of calls."""
    get_current_agent().set_rpc_timeout(timeout)


def _barrier(worker_names: Iterable[str]) -> None:
    """Wait until all of these workers have called this function; this worker must be among them.

    Raises  the errors of _all_gather
    """
    _all_gather(None, set(worker_names))


def _wait_all_workers(timeout: float = constants.DEFAULT_SHUTDOWN_TIMEOUT) -> None:
    """Wait until all workers of the group have called this function.

    Units   timeout in seconds; 0 waits as long as the other workers live
    Raises  the errors of _all_gather
    """
    _all_gather(None, timeout=timeout)


def _end(agent: RpcAgent) -> None:
    if agents.current_agent_or_none() is not agent:
        return  # a signal handler or another thread has shut RPC down meanwhile
    leaks = [] if _ignore_rref_leak else agent.rrefs.leaks()
    agent.shutdown()
    agents.set_current_agent(None)
    agents.run_stop_hooks()
    if leaks:
        told = "\n".join(f"Leaking RRef {value} with fork Id {fork}" for value, fork in leaks)
        raise RpcError(
            f"{told}\n"
            "Other workers hold references to values on this worker: they must release them "
            "before this worker calls shutdown()"
        )


def _to_worker_info(to: To) -> WorkerInfo:
    """Return the WorkerInfo of the worker with this name or id.

    Raises  ValueError or RpcError if there is no such worker
    """
    return worker_to_call(get_current_agent(), to, print)


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name == "_default_pickler":
            return current()
        return find_late(__name__, name)


late_bound.update(rpc_sync=rpc_sync, rpc_async=rpc_async, remote=remote)
late_bound["context"] = lambda: get_current_agent().rrefs
