"""PyTorch's bytecode compiler, which is not supported: programs run eagerly.

Hints do nothing, decorators return their functions, and `is_compiling()` is False. Functions that
should return a graph raise an error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..compiler import (
    allow_in_graph,
    assume_constant_result,
    disable,
    is_compiling,
    list_backends,
    reset,
    runs_as_it_is,
    set_stance,
)
from ..core.missing import NO_GRAPHS, load_later, refusing
from ..core.module_aliases import alias_modules
from . import config, exc, utils
from .eval_frame import OptimizedModule

__all__ = [
    "OptimizedModule", "allow_in_graph", "assume_constant_result", "config", "disable",
    "disallow_in_graph", "exc", "explain", "export", "forbid_in_graph", "graph_break",
    "is_compiling", "is_dynamo_supported", "is_inductor_supported", "list_backends",
    "lookup_backend", "mark_dynamic", "mark_static", "mark_static_address", "maybe_mark_dynamic",
    "nonstrict_trace", "optimize", "optimize_assert", "patch_dynamo_config", "register_backend",
    "reset", "reset_code_caches", "run", "set_stance", "skip_frame", "substitute_in_graph",
    "utils",
]  # fmt: skip
alias_modules({f"{__name__}.decorators": __name__})

explain = refusing(__name__, "explain", NO_GRAPHS)
export = refusing(__name__, "export", NO_GRAPHS)
lookup_backend = refusing(__name__, "lookup_backend", NO_GRAPHS)
disallow_in_graph = forbid_in_graph = nonstrict_trace = allow_in_graph
patch_dynamo_config = config.patch


def is_dynamo_supported() -> bool:
    """Return False: there is no compiler."""
    return False


is_inductor_supported = is_dynamo_supported


def graph_break(msg: str = "") -> None:
    """Do nothing: there is no graph."""


def reset_code_caches() -> None:
    """Do nothing: no code is cached."""


def mark_dynamic(
    t: Any,
    index: Any,
    *,
    hint_override: int | None = None,
    min: int | None = None,
    max: int | None = None,
    specialize_on: Any = None,
) -> None:
    """Do nothing: functions accept any size."""


def maybe_mark_dynamic(t: Any, index: Any) -> None:
    """Do nothing: functions accept any size."""


def mark_static(t: Any, index: Any = None) -> None:
    """Do nothing: functions accept any size."""


def mark_static_address(t: Any, guard: bool = False) -> None:
    """Do nothing: there is no graph that keeps an address."""


def skip_frame(msg: str = "") -> None:
    """Do nothing: functions run eagerly."""


def optimize(*args: Any, **kwargs: Any) -> Callable[[Any], Any]:
    """Return a decorator that returns its function or module unchanged."""
    runs_as_it_is("_dynamo.optimize()")
    return _unchanged


optimize_assert = optimize


def run(fn: Any = None) -> Any:
    """Return the function `fn` unchanged. Without `fn`, return a decorator that does the same."""
    return _unchanged if fn is None else fn


def _unchanged(fn: Any) -> Any:
    return fn


def substitute_in_graph(original_fn: Any, **kwargs: Any) -> Callable[[Any], Any]:
    """Return a decorator that returns its function unchanged."""
    return _unchanged


def register_backend(compiler_fn: Any = None, name: str | None = None, tags: Any = ()) -> Any:
    """Return the compiler, or a decorator that returns it. The compiler is never called."""
    return _unchanged if compiler_fn is None else compiler_fn


_LATER = ("_trace_wrapped_higher_order_op", "backends", "external_utils", "testing")
load_later(__name__, {**dict.fromkeys(_LATER, ""), "decorators": ""})
