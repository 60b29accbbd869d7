"""The decorator for functions that return a Future: torch's rpc.functions."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

__all__ = ["async_execution"]

P = ParamSpec("P")
T = TypeVar("T")


def async_execution(fn: Callable[P, T]) -> Callable[P, T]:
    """Mark a function that returns a Future: the callee answers with the Future's value.

    Until the Future has its value, the thread that ran the function is free. Put this decorator
    below @staticmethod or @classmethod.

    Args:
        fn: The function; it returns a Future.

    Returns:
        The function. Callers get the Future's value; no thread of the callee waits for this value.

    Example:
        >>> @rpc.functions.async_execution
        ... def twice(x):
        ...     return rpc.rpc_async("worker0", torch.add, args=(x, x))
    """

    @functools.wraps(fn)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
        return fn(*args, **kwargs)

    wrapper._wrapped_async_rpc_function = fn  # type: ignore[attr-defined]
    return wrapper
