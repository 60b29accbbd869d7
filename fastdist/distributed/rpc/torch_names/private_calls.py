"""Private functions of PyTorch's rpc/api.py and of its bindings."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, ParamSpec, TypeVar

from fastdist.concurrency.future import Future
from fastdist.tensor.tensor import Tensor

from ....core.short_repr import short_repr
from .. import constants
from ..agent import get_current_agent
from ..call_arguments import To
from ..references.rref import RRef, late_bound
from ..workers.record import WorkerInfo
from .internal import _internal_rpc_pickler

P = ParamSpec("P")
R = TypeVar("R")


def _require_initialized(func: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function so that it raises RpcNotRunningError if RPC is not initialized."""

    @functools.wraps(func)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        get_current_agent()
        return func(*args, **kwargs)

    return wrapper


def _delete_all_user_and_unforked_owner_rrefs(
    timeout: timedelta = timedelta(seconds=constants.SHUTDOWN_TIMEOUT_S),
) -> None:
    """Release all references of this worker to other workers' values, and notify the owners."""
    get_current_agent().rrefs.delete_all(time.monotonic() + timeout.total_seconds())


def _rref_typeof_on_owner(rref: Any, blocking: bool = True) -> Any:
    """Return the class of the value of an RRef that this worker owns, or a Future of it."""
    rref.local_value()  # raises if this worker is not the owner
    return rref._get_type(blocking=blocking)


def _rref_typeof_on_user(
    rref: Any, timeout: float = constants.UNSET_RPC_TIMEOUT, blocking: bool = True
) -> Any:
    """Query the owner for the class of an RRef's value; return the class, or a Future of it."""
    return rref._get_type(timeout, blocking)


def _invoke_rpc_python_udf(
    dst: WorkerInfo, pickled: bytes, tensors: Sequence[Tensor], timeout: float, is_async: bool
) -> Future[Any]:
    """Make a call of rpc_async with a PythonUDF that internal.serialize has packed.

    Note    `is_async` is not used: the decorator async_execution marks an async function
    """
    call = _internal_rpc_pickler.deserialize(pickled, tensors)
    return late_bound["rpc_async"](dst, call.func, call.args, call.kwargs, timeout)  # type: ignore[no-any-return]


def _invoke_remote_python_udf(
    dst: WorkerInfo, pickled: bytes, tensors: Sequence[Tensor], timeout: float, is_async: bool
) -> RRef[Any]:
    """Make a call of remote() with a PythonUDF that internal.serialize has packed."""
    call = _internal_rpc_pickler.deserialize(pickled, tensors)
    return late_bound["remote"](dst, call.func, call.args, call.kwargs, timeout)  # type: ignore[no-any-return]


def _invoke_rpc_builtin(
    dst: WorkerInfo, op: str, timeout: float, *args: Any, **kwargs: Any
) -> Future[Any]:
    """Make a call of rpc_async with the Tensor method of an op, named as in "aten::add".

    Raises  ValueError if tensors have no method with that name
    """
    return late_bound["rpc_async"](dst, _op_of(op), args, kwargs, timeout)  # type: ignore[no-any-return]


def _invoke_remote_builtin(
    dst: WorkerInfo, op: str, timeout: float, *args: Any, **kwargs: Any
) -> RRef[Any]:
    """Make a call of remote() with the Tensor method of an op, named as in "aten::add".

    Raises  ValueError if tensors have no method with that name
    """
    return late_bound["remote"](dst, _op_of(op), args, kwargs, timeout)  # type: ignore[no-any-return]


def _op_of(name: str) -> Callable[..., Any]:
    found: Callable[..., Any] | None = getattr(Tensor, name.removeprefix("aten::"), None)
    if not callable(found):
        raise ValueError(
            f"{short_repr(name)} is not an op that tensors have as a method; give the function "
            "itself to rpc_sync, rpc_async or remote"
        )
    return found


def _invoke_rpc_torchscript(dst: To, name: str, *args: Any, **kwargs: Any) -> Future[Any]:
    """Raise NotImplementedError: this would call a function of TorchScript, which is not here."""
    raise NotImplementedError(
        f"{short_repr(name)} is a name of TorchScript, which is not here: jit.script returns "
        "the function "
        "that it is given, and rpc_sync, rpc_async and remote take that"
    )


_invoke_remote_torchscript = _invoke_rpc_torchscript
