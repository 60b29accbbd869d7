"""What PyTorch's users find in rpc.internal: kinds of calls, their keys, and how values travel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple

from fastdist.core.time_ranges import time_range, time_ranges
from fastdist.tensor.tensor import Tensor

from .pickler import _internal_rpc_pickler, _InternalRPCPickler

__all__ = ["PythonUDF", "RPCExecMode", "_InternalRPCPickler", "deserialize", "serialize"]


class RPCExecMode(Enum):
    """How a function is called on another worker."""

    SYNC = "sync"
    ASYNC = "async"
    ASYNC_JIT = "async_jit"
    REMOTE = "remote"


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


def serialize(obj: object) -> tuple[bytes, list[Tensor]]:
    """Return the bytes of obj and the tensors in it."""
    return _internal_rpc_pickler.serialize(obj)


def deserialize(binary_data: bytes, tensor_table: Sequence[Tensor]) -> Any:
    """Return what serialize was given."""
    return _internal_rpc_pickler.deserialize(binary_data, tensor_table)
