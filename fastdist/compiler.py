"""PyTorch's names for compiling programs. fastdist runs code as written, and warns about this."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from .core.missing import explain_missing

__all__ = [
    "allow_in_graph",
    "assume_constant_result",
    "compile",
    "cudagraph_mark_step_begin",
    "disable",
    "is_compiling",
    "is_dynamo_compiling",
    "is_exporting",
    "list_backends",
    "reset",
    "set_stance",
]
_told: set[str] = set()


def runs_as_it_is(name: str, stacklevel: int = 3) -> None:
    """Warn, once for each name, that programs are neither compiled nor captured."""
    if name not in _told:
        _told.add(name)
        warnings.warn(
            f"{name} returns its argument unchanged: fastdist runs programs as they are written, "
            "and compiles only kernels",
            UserWarning,
            stacklevel=stacklevel,
        )


def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: Any = "inductor",
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
) -> Any:
    """Return the function or module unchanged, for `compile(f)`, `@compile` and `@compile(...)`.

    Raises  RuntimeError if both mode and options are given

    Kernels are compiled when they are first used, whether or not a program calls `compile`.

    Args:
        model: The function or module; None if `compile` is used as a decorator with options.
        fullgraph: Ignored.
        dynamic: Ignored.
        backend: Ignored.
        mode: Ignored.
        options: Ignored.
        disable: Ignored.

    Example:
        >>> import warnings
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")
        ...     double = torch.compile(lambda x: x * 2)
        >>> double(torch.ones(2))
        tensor([2., 2.])
    """
    if mode is not None and options is not None:
        raise RuntimeError(
            "Either mode or options can be specified, but both can't be specified at the same time."
        )
    if not disable:
        runs_as_it_is("compile()")
    return _unchanged if model is None else model


def _unchanged(model: Any) -> Any:
    return model


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Return the function unchanged: fastdist does not compile functions."""
    return _unchanged if fn is None else fn


def allow_in_graph(fn: Any) -> Any:
    """Return the function unchanged."""
    return fn


def assume_constant_result(fn: Any) -> Any:
    """Return the function unchanged."""
    return fn


def is_compiling() -> bool:
    """Return False.

    Example:
        >>> torch.compiler.is_exporting()
        False
    """
    return False


is_dynamo_compiling: Callable[[], bool] = is_compiling
is_exporting: Callable[[], bool] = is_compiling


def list_backends(exclude_tags: Any = ()) -> list[str]:
    """Return the names of the available compiler backends: an empty list."""
    return []


def reset() -> None:
    """Do nothing: no compiled programs are cached."""


def cudagraph_mark_step_begin() -> None:
    """Do nothing: `compile` does not capture CUDA graphs."""


class set_stance:
    """Do nothing, when called or used as a context: functions always run eagerly."""

    def __init__(self, stance: str = "default", **more: Any) -> None:
        self.stance = stance

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        pass


explain_missing(__name__)
