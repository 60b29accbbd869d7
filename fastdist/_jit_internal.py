"""Decorators of PyTorch's compiler that other packages import; they return functions unchanged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from .core.missing import explain_missing

__all__ = ["Final", "boolean_dispatch", "export", "ignore", "is_scripting", "unused"]


def _overload(func: Any) -> Any:
    """Return the function unchanged."""
    return func


_overload_method = _copy_to_script_wrapper = export = unused = _overload


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """Return the decorated function unchanged, for `@ignore` and for `@ignore(...)`."""
    return drop if callable(drop) else _overload


def is_scripting() -> bool:
    """Return False."""
    return False


def boolean_dispatch(
    arg_name: str,
    arg_index: int,
    default: bool,
    if_true: Callable[..., Any],
    if_false: Callable[..., Any],
    module_name: str,
    func_name: str,
) -> Callable[..., Any]:
    """Return a function that calls one of two functions, chosen by the value of an argument.

    Args:
        arg_name: The name of the argument.
        arg_index: Its position among the positional arguments.
        default: Its value if it is not passed.
        if_true: The function to call if the value is true.
        if_false: The function to call if the value is false.
        module_name: The module that the function belongs to.
        func_name: The function's name.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        given = args[arg_index] if len(args) > arg_index else kwargs.get(arg_name, default)
        return (if_true if given else if_false)(*args, **kwargs)

    call.__name__ = call.__qualname__ = func_name
    call.__module__ = module_name
    call.__doc__ = if_true.__doc__ or if_false.__doc__
    return call


explain_missing(__name__)
