"""Symbolic tracing: a module or function runs once on proxies, and its calls become a graph.

`symbolic_trace(model)` returns a GraphModule. Its `graph` can be read and changed, and its `code`
is the graph as Python text. Control flow that depends on the values of an input cannot be traced.
`fastdist.trace(fn)(x)` records the ops of one run on real tensors instead.

node.py                   one step of a graph, and trees of arguments
graph.py, code.py         the list of steps, and its Python text
names.py                  the names of functions in code
proxy.py                  values that record the operations on them
tracer.py                 the run of a program on proxies
_symbolic_trace.py        symbolic_trace; the names of tracer.py under PyTorch's module path
graph_module.py           a module whose forward is a graph
interpreter.py            runs a graph step by step, or transforms it into another one
passes/shape_prop.py      the shapes and dtypes of all steps
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..core.missing import show_public
from ..core.refused import offer_refused
from ._symbolic_trace import PH, Tracer, symbolic_trace, wrap
from .graph import CodeGen, Graph
from .graph_module import GraphModule
from .immutable_collections import immutable_dict, immutable_list
from .interpreter import Interpreter, Transformer
from .node import Node, has_side_effect, map_arg
from .proxy import Proxy, TraceError

__all__ = [
    "PH",
    "CodeGen",
    "Graph",
    "GraphModule",
    "Interpreter",
    "Node",
    "Proxy",
    "TraceError",
    "Tracer",
    "Transformer",
    "has_side_effect",
    "immutable_dict",
    "immutable_list",
    "map_arg",
    "symbolic_trace",
    "wrap",
]


def is_fx_tracing() -> bool:
    """Return False: no program is being exported."""
    return False


def map_aggregate(a: Any, fn: Any) -> Any:
    """Return `a` with fn applied to each leaf in its tuples, lists, dicts and slices."""
    if isinstance(a, tuple):
        parts = [map_aggregate(one, fn) for one in a]
        return type(a)(*parts) if hasattr(a, "_fields") else tuple(parts)
    if isinstance(a, list):
        return [map_aggregate(one, fn) for one in a]
    if isinstance(a, dict):
        return {key: map_aggregate(value, fn) for key, value in a.items()}
    if isinstance(a, slice):
        return slice(*(map_aggregate(one, fn) for one in (a.start, a.stop, a.step)))
    return fn(a)


if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
else:
    offer_refused(globals())

show_public(__name__)
