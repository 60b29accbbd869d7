"""PyTorch's pickler of calls: users register with it how objects of a class travel."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

from fastdist.core.errors import MessageError
from fastdist.tensor.tensor import Tensor

from .message import body


class _InternalRPCPickler:
    """Turns values into bytes and a table of tensors, and back.

    Thread  any
    """

    def __init__(self) -> None:
        self._class_reducer_dict: dict[type, Callable[[Any], tuple[Any, ...]]] = {}

    def _register_reducer(self, obj_class: type, reducer: Callable[[Any], tuple[Any, ...]]) -> None:
        """Let objects of a class travel as reducer(object), which is (rebuild, arguments).

        A second reducer of a class is not taken. `rebuild` is found by name on the other worker.
        """
        self._class_reducer_dict.setdefault(obj_class, reducer)
        if current() is self:
            body.use_reducers(self._class_reducer_dict)

    def serialize(self, obj: object) -> tuple[bytes, list[Tensor]]:
        """Return the bytes of obj and the tensors in it.

        Raises  RpcError naming what does not pickle
        """
        tensors: list[Tensor] = []
        with nullcontext() if current() is self else _used(self):
            packed, encoding = body.serialize(obj, tensors)
        return bytes([encoding]) + packed, tensors

    def deserialize(self, binary_data: bytes, tensor_table: Sequence[Tensor]) -> Any:
        """Return what serialize was given.

        Raises  MessageError for anything else; ForbiddenFunctionError in strict mode
        """
        if not binary_data:
            raise MessageError("no bytes: expected what serialize returned")
        return body.deserialize(binary_data[1:], binary_data[0], tensor_table)


_internal_rpc_pickler = _InternalRPCPickler()
_current: Any = _internal_rpc_pickler


def current() -> Any:
    """Return the pickler whose reducers calls use."""
    return _current


@contextmanager
def _use_rpc_pickler(rpc_pickler: Any) -> Iterator[None]:
    """Let calls that are made in the block, by any thread, use the reducers of a pickler.

    Raises  TypeError for a pickler with a `serialize` of its own, which no call would go through
    """
    own = getattr(type(rpc_pickler), "serialize", None)
    if own not in (None, _InternalRPCPickler.serialize):
        raise TypeError(
            f"{type(rpc_pickler).__name__} has a serialize of its own, and calls are packed by the "
            "agent; tell it by _register_reducer(class, reducer) how objects travel"
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
