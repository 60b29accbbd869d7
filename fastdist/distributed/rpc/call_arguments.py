"""Checks of the worker, the function and the arguments that a user passes to a call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from ...core.short_repr import short_repr
from .agent import RpcAgent
from .workers.record import WorkerInfo

To: TypeAlias = str | int | WorkerInfo


def worker_to_call(agent: RpcAgent, to: To, func: object) -> WorkerInfo:
    """Return the worker to call.

    Raises  TypeError if func is not callable; ValueError or RpcError if `to` is not a worker
    """
    if not callable(func):
        raise TypeError(f"function should be callable. Got {short_repr(func)}")
    if to.__class__ is WorkerInfo:
        return to
    if not isinstance(to, (str, int, WorkerInfo)):
        raise ValueError(f"Cannot get WorkerInfo from name {to}")
    return agent.get_worker_info(to)


def arguments_of(args: Sequence[Any] | None) -> Sequence[Any]:
    """Return the positional arguments that a user gave.

    Raises  TypeError unless args is a tuple or list; `(x)` instead of `(x,)` is a common mistake
    """
    if args is None:
        return ()
    if args.__class__ is tuple or isinstance(args, (tuple, list)):
        return args
    raise TypeError(f"args must be a tuple, got {type(args).__name__}: write args=(x,) for one")


def keywords_of(kwargs: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return the keyword arguments that a user gave.

    Raises  TypeError unless kwargs is a mapping
    """
    if kwargs is None:
        return {}
    if kwargs.__class__ is dict:
        return kwargs
    if isinstance(kwargs, Mapping):
        return dict(kwargs)
    raise TypeError(f"kwargs must be a dict of names and values, got {type(kwargs).__name__}")
