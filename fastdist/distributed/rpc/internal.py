"""What PyTorch's users find in rpc.internal: kinds of calls, their keys, and how values travel."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple

from fastdist.core.time_ranges import time_range, time_ranges
from fastdist.tensor.tensor import Tensor

from .agent import get_current_agent
from .pickler import _internal_rpc_pickler, _InternalRPCPickler

__all__ = [
    "PythonUDF",
    "RPCExecMode",
    "RemoteException",
    "_InternalRPCPickler",
    "deserialize",
    "serialize",
]


class RPCExecMode(Enum):
    """How a function is called on another worker."""

    SYNC = "sync"
    ASYNC = "async"
    ASYNC_JIT = "async_jit"
    REMOTE = "remote"


class RemoteException(NamedTuple):
    """What a function raised: the text, with the worker and the traceback, and the type."""

    msg: str
    exception_type: type[Exception]


class PythonUDF(NamedTuple):
    """A call: a function and what it is given."""

    func: Callable[..., Any]
    args: Sequence[Any]
    kwargs: Mapping[str, Any]


def _build_rpc_profiling_key(
    exec_type: RPCExecMode, func_name: str, current_worker_name: str, dst_worker_name: str
) -> str:
    """Return the name of a call's event in a profile."""
    return f"rpc_{exec_type.value}#{func_name}({current_worker_name} -> {dst_worker_name})"


def _start_record_function(
    exec_type: RPCExecMode, func_name: str, current_worker_name: str, dest_worker_name: str
) -> time_range:
    """Begin the event of a call, and return it; its __exit__ ends it.

    Raises  AssertionError if no profile records
    """
    if not time_ranges.on:
        raise AssertionError("Autograd profiler should be enabled.")
    key = _build_rpc_profiling_key(exec_type, func_name, current_worker_name, dest_worker_name)
    event = time_range(key, "user")
    event.__enter__()
    return event


def _run_function(python_udf: PythonUDF | AttributeError) -> Any:
    """Return what a call returns, or a RemoteException of what it raises; of an AttributeError,
    which stands for a function that was not found, that.
    """
    try:
        if isinstance(python_udf, AttributeError):
            raise python_udf
        return python_udf.func(*python_udf.args, **python_udf.kwargs)
    except Exception as error:
        where = f"On {get_current_agent().get_worker_info()}"
        return RemoteException(f"{where}:\n{error!r}\n{traceback.format_exc()}", type(error))


def _handle_exception(result: object) -> None:
    """Raise what a RemoteException tells of; do nothing for any other result.

    Raises  RuntimeError for a type that cannot be made of a text
    """
    if not isinstance(result, RemoteException):
        return
    try:
        error = result.exception_type(result.msg)
    except Exception as failure:
        raise RuntimeError(
            f"Failed to create original exception type. Error msg was {failure} Original "
            f"exception on remote side was {result.msg}"
        ) from failure
    raise error


def serialize(obj: object) -> tuple[bytes, list[Tensor]]:
    """Return the bytes of obj and the tensors in it."""
    return _internal_rpc_pickler.serialize(obj)


def deserialize(binary_data: bytes, tensor_table: Sequence[Tensor]) -> Any:
    """Return what serialize was given."""
    return _internal_rpc_pickler.deserialize(binary_data, tensor_table)
