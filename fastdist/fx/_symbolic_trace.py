"""Graphs of modules and functions, made by one run of them; tracer.py runs them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.missing import explain_missing
from ..nn.module import Module
from .graph_module import GraphModule
from .tracer import PH, Tracer, wrap

__all__ = ["PH", "Tracer", "symbolic_trace", "wrap"]


def symbolic_trace(
    root: Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None
) -> GraphModule:
    """Return a module or function as a GraphModule: its ops as a graph, made by one run on Proxies.

    Control flow that asks the numbers of an input raises TraceError.

    Args:
        root: The module or the function.
        concrete_args: Values of arguments, by name, for which the program is traced.
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if isinstance(root, Module) else root.__name__
    return GraphModule(tracer.root, graph, name)


explain_missing(__name__)
