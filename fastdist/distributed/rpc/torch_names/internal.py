"""PyTorch's names in rpc.internal, for kinds of calls, calls' profiling keys and packed values."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from enum import Enum
from typing import Any, NamedTuple

from fastdist.core.errors import MessageError
from fastdist.instrumentation.time_ranges import time_range, time_ranges
from fastdist.tensor.tensor import Tensor

from ..agent import get_current_agent
from ..message import body

__all__ = [
    "PythonUDF",
    "RPCExecMode",
    "RemoteException",
    "_InternalRPCPickler",
    "deserialize",
    "serialize",
]


class _InternalRPCPickler:
    """Turns values into bytes and a list of tensors, and back.

    Thread  any
    """

    def __init__(self) -> None:
        self._class_reducer_dict: dict[type, Callable[[Any], tuple[Any, ...]]] = {}

    def _register_reducer(self, obj_class: type, reducer: Callable[[Any], tuple[Any, ...]]) -> None:
        """Pickle objects of a class as reducer(object), which is (rebuild, arguments).

        A second reducer for a class is ignored. `rebuild` is found by name on the other worker.
        """
        self._class_reducer_dict.setdefault(obj_class, reducer)
        if current() is self:
            body.use_reducers(self._class_reducer_dict)

    def serialize(self, obj: object) -> tuple[bytes, list[Tensor]]:
        """Return the bytes of obj and the tensors in it.

        Raises  RpcError naming the part that cannot be pickled
        """
        tensors: list[Tensor] = []
        with nullcontext() if current() is self else _used(self):
            packed, encoding = body.serialize(obj, tensors)
        return bytes([encoding]) + packed, tensors

    def deserialize(self, binary_data: bytes, tensor_table: Sequence[Tensor]) -> Any:
        """Return the value that was passed to serialize.

        Raises  MessageError for invalid bytes; ForbiddenFunctionError in strict mode
        """
        if not binary_data:
            raise MessageError("no bytes: expected what serialize returned")
        return body.deserialize(binary_data[1:], binary_data[0], tensor_table)


_internal_rpc_pickler = _InternalRPCPickler()
_current: Any = _internal_rpc_pickler


def current() -> Any:
    """Return the pickler whose reducers are used for calls."""
    return _current


@contextmanager
def _use_rpc_pickler(rpc_pickler: Any) -> Iterator[None]:
    """During the block, use the reducers of a pickler for the calls of all threads.

    Raises  TypeError for a pickler that overrides `serialize`, which calls would not use
    """
    own = getattr(type(rpc_pickler), "serialize", None)
    if own not in (None, _InternalRPCPickler.serialize):
        raise TypeError(
            f"{type(rpc_pickler).__name__} overrides serialize, which the agent does not use to "
            "pack calls; register with _register_reducer(class, reducer) how objects are sent"
        )
    with _used(rpc_pickler):
        yield


@contextmanager
def _used(pickler: Any) -> Iterator[None]:
    global _current
    before, _current = _current, pickler
    body.use_reducers(getattr(pickler, "_class_reducer_dict", {}))
    try:
        yield
    finally:
        _current = before
        body.use_reducers(getattr(before, "_class_reducer_dict", {}))


class RPCExecMode(Enum):
    """The ways to call a function on another worker."""

    SYNC = "sync"
    ASYNC = "async"
    ASYNC_JIT = "async_jit"
    REMOTE = "remote"


class RemoteException(NamedTuple):
    """A function's exception: its text, with the worker and the traceback, and its type."""

    msg: str
    exception_type: type[Exception]


class PythonUDF(NamedTuple):
    """A call: a function and its arguments."""

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
    """Begin the event of a call, and return the event; its `__exit__` ends the event.

    Raises  AssertionError if no profile records
    """
    if not time_ranges.on:
        raise AssertionError("Autograd profiler should be enabled.")
    key = _build_rpc_profiling_key(exec_type, func_name, current_worker_name, dest_worker_name)
    event = time_range(key, "user")
    event.__enter__()
    return event


def _run_function(python_udf: PythonUDF | AttributeError) -> Any:
    """Return the result of a call, or a RemoteException for its exception.

    `python_udf` is an AttributeError if the function was not found. The result is then a
    RemoteException, too.
    """
    try:
        if isinstance(python_udf, AttributeError):
            raise python_udf
        return python_udf.func(*python_udf.args, **python_udf.kwargs)
    except Exception as error:
        where = f"On {get_current_agent().get_worker_info()}"
        return RemoteException(f"{where}:\n{error!r}\n{traceback.format_exc()}", type(error))


def _handle_exception(result: object) -> None:
    """Raise the error of a RemoteException; do nothing for any other result.

    Raises  RuntimeError if the exception's class cannot be called with a text alone
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
    """Return the value that was passed to serialize."""
    return _internal_rpc_pickler.deserialize(binary_data, tensor_table)
