"""What RRef.rpc_sync(), rpc_async() and remote() return: the value's methods, run on its owner."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..calls.incoming import Later
from ..message import gate


class RRefProxy:
    """Names a method by attribute, and calls it on the owner."""

    __slots__ = ("_how", "_rref", "_timeout")

    def __init__(self, rref: Any, how: Callable[..., Any], timeout: float) -> None:
        self._rref = rref
        self._how = how
        self._timeout = timeout

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return functools.partial(_call, self._rref, self._how, name, self._timeout)


def _call(
    rref: Any,
    how: Callable[..., Any],
    name: str,
    timeout: float,
    *args: Any,
    **kwargs: Any,
) -> Any:
    return how(rref.owner(), invoke_on_owner, (rref, name, args, kwargs), timeout=timeout)


@gate.export
def invoke_on_owner(rref: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a method of the value; if it is an async one, its Future is the answer.

    Raises  TypeError for something else than an RRef, which may have a `local_value` of its own
    """
    method = getattr(_value_of(rref), name)
    gate.require_callable_by_others(method)
    result = method(*args, **kwargs)
    return Later(result) if hasattr(method, "_wrapped_async_rpc_function") else result


@gate.export
def type_on_owner(rref: Any) -> type:
    """Return the class of the value."""
    return type(_value_of(rref))


class Reference:
    """What every RRef is: known here, below the class itself, so that it can be asked for."""

    __slots__ = ()

    def local_value(self) -> Any:
        """Return the value, which lives on this worker."""
        raise NotImplementedError


def _value_of(rref: object) -> Any:
    if not isinstance(rref, Reference):
        raise TypeError(f"expected an RRef of this worker, got {type(rref).__name__}")
    return rref.local_value()
