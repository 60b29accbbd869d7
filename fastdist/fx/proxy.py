"""Proxies: stand-ins for values during tracing; operations on them become steps of the graph."""

from __future__ import annotations

import bisect
import dis
import enum
import importlib
import inspect
import operator
import sys
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any, NoReturn

from ..core.device import Device
from ..core.dtypes import DType
from ..core.memory_format import MemoryFormat, MemoryLayout
from ..core.missing import explain_missing
from ..tensor.tensor import Tensor
from .graph import Graph
from .names import root_module
from .node import Argument, Node, Target, map_aggregate

__all__ = ["Attribute", "GraphAppendingTracer", "Proxy", "TraceError", "TracerBase"]

_MAGIC = (
    "eq", "ne", "lt", "gt", "le", "ge", "pos", "neg", "invert", "add", "sub", "mul", "floordiv",
    "truediv", "mod", "pow", "lshift", "rshift", "and_", "or_", "xor", "getitem", "matmul", "abs",
)  # fmt: skip
_REFLECTED = (
    "add", "sub", "mul", "floordiv", "truediv", "mod", "pow", "lshift", "rshift", "and_", "or_",
    "xor", "matmul",
)  # fmt: skip


class TraceError(ValueError):
    """The traced program needs the concrete value of a Proxy, which is not known yet."""


class TracerBase:
    """Creates steps from calls, and arguments of steps from Python values."""

    graph: Graph
    # Whether to record a stack trace with each step: not supported.
    record_stack_traces = False

    def create_node(
        self,
        kind: str,
        target: Target,
        args: tuple[Argument, ...],
        kwargs: dict[str, Argument],
        name: str | None = None,
        type_expr: Any = None,
    ) -> Node:
        """Add a step to the graph; subclasses may override it."""
        return self.graph.create_node(kind, target, args, kwargs, name, type_expr)

    def proxy(self, node: Node) -> Proxy:
        """Return a Proxy for a step."""
        return Proxy(node, self)

    def create_proxy(
        self,
        kind: str,
        target: Target,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any = None,
        proxy_factory_fn: Callable[[Node], Proxy] | None = None,
    ) -> Proxy:
        """Add a step whose arguments may contain Proxies, and return its Proxy."""
        args_, kwargs_ = self.create_arg(args), self.create_arg(kwargs)
        node = self.create_node(kind, target, args_, kwargs_, name, type_expr)
        return self.proxy(node) if proxy_factory_fn is None else proxy_factory_fn(node)

    def create_arg(self, a: Any) -> Argument:
        """Convert a value to an argument of a step.

        Raises  NotImplementedError for a value that a graph cannot hold
        """
        if isinstance(a, Proxy):
            return a.node
        if hasattr(a, "__fx_create_arg__"):
            return a.__fx_create_arg__(self)
        if isinstance(a, tuple):
            parts = [self.create_arg(one) for one in a]
            return type(a)(*parts) if hasattr(a, "_fields") else tuple(parts)
        if isinstance(a, list):
            return [self.create_arg(one) for one in a]
        if isinstance(a, dict):
            return {self._key(key): self.create_arg(one) for key, one in a.items()}
        if isinstance(a, slice):
            return slice(*[self.create_arg(one) for one in (a.start, a.stop, a.step)])
        if isinstance(a, range):
            return range(*[self.create_arg(one) for one in (a.start, a.stop, a.step)])
        if _can_be_held(a):
            return a
        raise NotImplementedError(f"argument of type: {type(a)}")

    def _key(self, key: Any) -> Any:
        if isinstance(self.create_arg(key), Node):
            raise RuntimeError(
                f"Keys for dictionaries used as an argument cannot contain a Node: {key}"
            )
        return key

    def to_bool(self, obj: Proxy) -> bool:
        """Raise TraceError: a branch would depend on a value that is not known."""
        raise TraceError("symbolically traced variables cannot be used as inputs to control flow")

    def iter(self, obj: Proxy) -> Iterator[Any]:
        """Return an iterator for an assignment such as `a, b = obj`, which determines the number of
        items.

        Raises  TraceError in any other place, because the number of items is not known
        """
        count = _count_of_unpacked()
        if count is None:
            raise TraceError(
                "Proxy object cannot be iterated. This can be attempted when the Proxy is used in "
                "a loop or as a *args or **kwargs function argument. See the torch.fx docs on "
                "pytorch.org for a more detailed explanation of what types of control flow can be "
                "traced, and check out the Proxy docstring for help troubleshooting Proxy "
                "iteration errors"
            )
        item: Any = obj
        return iter([item[place] for place in range(count)])

    def keys(self, obj: Proxy) -> Any:
        """Add a call of obj.keys(), which Python needs for `**obj`, and return its Proxy."""
        return Attribute(obj, "keys")()


def _can_be_held(value: Any) -> bool:
    plain = str | int | float | bool | complex | bytes | DType | Device | Tensor | None
    if isinstance(value, plain) or value is ...:
        return True
    more = MemoryFormat | MemoryLayout | enum.Enum | type | Node | FunctionType
    return isinstance(value, more) or inspect.isbuiltin(value)


def _count_of_unpacked() -> int | None:
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").startswith("fastdist.fx"):
        frame = frame.f_back
    if frame is None:
        return None
    found = list(dis.get_instructions(frame.f_code))
    place = bisect.bisect_left([one.offset for one in found], frame.f_lasti)
    one = found[place]
    return one.argval if one.opname == "UNPACK_SEQUENCE" else None


class GraphAppendingTracer(TracerBase):
    """Adds steps to an existing graph, for Proxies that are created without a Tracer.

    Args:
        graph: The graph.
    """

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.graph = graph
        self.module_stack: dict[str, Any] = {}


class Proxy:
    """A stand-in for the value of a step. Operators, methods and tensor functions on it add steps.

    Raises  TraceError for `if`, loops, `in` and int(), and RuntimeError for len(): these need the
            concrete value
    """

    def __init__(self, node: Node, tracer: TracerBase | None = None) -> None:
        self.node = node
        self.tracer = GraphAppendingTracer(node.graph) if tracer is None else tracer

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, k: str) -> Any:
        if k in ("node", "tracer") or k.startswith("__fx_"):
            raise AttributeError(k)
        return Attribute(self, k)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__

    def __deepcopy__(self, memo: dict[int, Any]) -> Proxy:
        import copy

        made = object.__new__(type(self))
        made.__dict__.update({key: copy.deepcopy(one, memo) for key, one in vars(self).items()})
        return made

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ = state

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator[Any]:
        return self.tracer.iter(self)

    def __bool__(self) -> bool:
        return self.tracer.to_bool(self)

    def keys(self) -> Any:
        """Return the keys for the unpacking of a Proxy as `**proxy`."""
        return self.tracer.keys(self)

    def __len__(self) -> NoReturn:
        raise RuntimeError(
            "'len' is not supported in symbolic tracing by default. If you want this call to be "
            "recorded, please call torch.fx.wrap('len') at module scope"
        )

    def __contains__(self, item: Any) -> NoReturn:
        raise TraceError("`in` on a traced value asks its numbers")

    def __index__(self) -> NoReturn:
        raise TraceError("int() of a traced value asks its numbers")

    __int__ = __float__ = __index__

    @classmethod
    def __torch_function__(
        cls, orig_method: Any, types: Any, args: Any = None, kwargs: Any = None
    ) -> Any:
        args, kwargs = args or (), kwargs or {}
        tracers: dict[TracerBase, None] = {}

        def look(one: Any) -> Any:
            if isinstance(one, Proxy):
                tracers[one.tracer] = None
            return one

        map_aggregate((tuple(args), dict(kwargs)), look)
        if len(tracers) != 1:
            raise RuntimeError(
                "Found multiple different tracers while trying to trace operations: one call has "
                "values of two graphs"
            )
        (tracer,) = tracers
        name = orig_method.__name__
        # `relu`, for example, is both a function and a method. The program called the function,
        # because a method call on a Proxy is recorded by Attribute instead.
        is_function = getattr(root_module(), name, None) is orig_method
        overrides = importlib.import_module("fastdist.overrides")
        if not is_function and overrides.is_tensor_method_or_property(orig_method):
            return tracer.create_proxy("call_method", name, args, kwargs)
        return tracer.create_proxy(
            "call_function", orig_method, args, kwargs, name=tracer.graph._target_to_str(name)
        )


class Attribute(Proxy):
    """An attribute of a Proxy. Calling the attribute adds a `call_method` step. Any other use adds
    a step that calls getattr.
    """

    def __init__(self, root: Proxy, attr: str) -> None:
        self.root, self.attr, self.tracer = root, attr, root.tracer
        self._node: Node | None = None

    @property
    def node(self) -> Node:  # type: ignore[override]
        """The step that reads the attribute, added at first use."""
        if self._node is None:
            made = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {})
            self._node = made.node
        return self._node

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


class ParameterProxy(Proxy):
    """A Proxy of a parameter, whose shape is known during tracing."""

    def __init__(self, tracer: TracerBase, node: Node, name: str, param: Tensor) -> None:
        super().__init__(node, tracer)
        self.param, self.name = param, name

    def __repr__(self) -> str:
        return f"ParameterProxy({self.name})"

    @property
    def shape(self) -> Any:
        """The parameter's shape."""
        return self.param.shape

    def size(self, *dim: Any) -> Any:
        """Return the parameter's size."""
        return self.param.size(*dim)

    def dim(self) -> int:
        """Return the parameter's number of dimensions."""
        return self.param.dim()

    @property
    def ndim(self) -> int:
        """The parameter's number of dimensions."""
        return self.param.ndim

    def numel(self) -> int:
        """Return the parameter's number of elements."""
        return self.param.numel()


def _operator(name: str, *, reflected: bool = False) -> Callable[..., Any]:
    function = getattr(operator, name)

    def method(self: Proxy, *others: Any) -> Proxy:
        args = (*others, self) if reflected else (self, *others)
        return self.tracer.create_proxy("call_function", function, args, {})

    return method


for _name in _MAGIC:
    setattr(Proxy, f"__{_name.strip('_')}__", _operator(_name))
for _name in _REFLECTED:
    setattr(Proxy, f"__r{_name.strip('_')}__", _operator(_name, reflected=True))
# `==` adds a step, so dicts and sets must hash Proxies by identity.
Proxy.__hash__ = object.__hash__  # type: ignore[method-assign]

explain_missing(__name__)
