"""The kinds of agents by name, with the interface of PyTorch's backend_registry."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, NamedTuple

from fastdist.core.errors import RpcError

from .. import constants

__all__ = [
    "BackendType",
    "BackendValue",
    "backend_registered",
    "construct_rpc_backend_options",
    "init_backend",
    "register_backend",
]


class BackendValue(NamedTuple):
    """The functions that create a backend's options and its agent."""

    construct_rpc_backend_options_handler: Callable[..., Any]
    init_backend_handler: Callable[..., Any]


def _make_backend_type(values: dict[str, BackendValue]) -> Any:
    kinds: Any = enum.Enum("BackendType", values)  # type: ignore[misc]
    setattr(kinds, "__repr__", _repr_of_member)  # noqa: B010 - mypy takes it for a method
    kinds.__doc__ = "The backends that init_rpc knows; TENSORPIPE is the default."
    return kinds


def _repr_of_member(member: enum.Enum) -> str:
    return f"BackendType.{member.name}"


# `register_backend` replaces this enum, because members cannot be added to an enum.
BackendType: Any = _make_backend_type({})


def backend_registered(backend_name: str) -> bool:
    """Return whether a backend with this name was registered."""
    return backend_name in BackendType.__members__


def register_backend(
    backend_name: str,
    construct_rpc_backend_options_handler: Callable[..., Any],
    init_backend_handler: Callable[..., Any],
) -> Any:
    """Add a backend and return its BackendType.

    `init_backend_handler(store, name, rank, world_size, rpc_backend_options)` returns a started
    agent.

    Raises  RuntimeError if the name is taken
    """
    global BackendType
    if backend_registered(backend_name):
        raise RpcError(f"RPC backend {backend_name}: already registered")
    values = {member.name: member.value for member in BackendType}
    values[backend_name] = BackendValue(construct_rpc_backend_options_handler, init_backend_handler)
    BackendType = _make_backend_type(values)
    return BackendType[backend_name]


def construct_rpc_backend_options(
    backend: Any,
    rpc_timeout: float = constants.DEFAULT_RPC_TIMEOUT_SEC,
    init_method: str = constants.DEFAULT_INIT_METHOD,
    **kwargs: Any,
) -> Any:
    """Return the options of a backend; options that are not given have default values."""
    return backend.value.construct_rpc_backend_options_handler(
        rpc_timeout=rpc_timeout, init_method=init_method, **kwargs
    )


def init_backend(backend: Any, *args: Any, **kwargs: Any) -> Any:
    """Return a started agent of a backend."""
    return backend.value.init_backend_handler(*args, **kwargs)
