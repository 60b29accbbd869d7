"""symbolic_trace: makes a graph from one run of a module or function, by the Tracer."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FunctionType
from typing import Any

from ..core.folded_frames import folds
from ..core.missing import NO_GRAPHS, explain_missing
from ..core.refusing import refusing_class
from ..nn.module import Module
from ._compatibility import compatibility
from .graph_module import GraphModule
from .proxy import Proxy
from .tracer import PH, Tracer, _autowrap_check, _patch_wrapped_functions, _Patcher, wrap

# Packages with their own tracers import these names from this module.
__all__ = [
    "PH",
    "FunctionType",
    "Proxy",
    "Tracer",
    "_Patcher",
    "_autowrap_check",
    "_patch_wrapped_functions",
    "compatibility",
    "functools",
    "symbolic_trace",
    "wrap",
]
ScriptObject = refusing_class(__name__, "ScriptObject", NO_GRAPHS)
_orig_module_call, _orig_module_getattr = Module.__call__, Module.__getattr__


@folds
def symbolic_trace(
    root: Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None
) -> GraphModule:
    """Run a module or function once on Proxies, and return the GraphModule of the recorded calls.

    Control flow that depends on the values of an input raises TraceError.

    Args:
        root: The module or the function.
        concrete_args: Fixed values of arguments, by name.
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if isinstance(root, Module) else root.__name__
    return GraphModule(tracer.root, graph, name)


explain_missing(__name__)
