"""A module whose forward is generated from a graph."""

from __future__ import annotations

import copy
import itertools
import linecache
import weakref
from typing import Any
from weakref import WeakSet

from ..core.missing import explain_missing
from ..nn.module import Module
from ..tensor.parameter import Parameter
from ..tensor.tensor import Tensor
from .code import PythonCode, Writer
from .graph import Graph
from .tracer import Tracer

__all__ = ["GraphModule"]

# The key in `meta` of the attributes that a copy of the module keeps.
_USER_PRESERVED_ATTRIBUTES_KEY = "_user_preserved_attributes"

_numbers = itertools.count(1)


class GraphModule(Module):
    """A Module whose `forward` is generated from a Graph. `code` is the text of `forward`. After a
    change of `graph`, call `recompile()` to generate `forward` again.

    Args:
        root: The module whose submodules, parameters and buffers the graph uses; or a dict that
            maps their paths to them.
        graph: The graph; it is copied if another GraphModule owns it.
        class_name: The name of the class.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> GraphModule:
        # Each instance has its own class, because `forward` is an attribute of the class.
        base = next(kind for kind in cls.__mro__ if kind not in _own_classes)
        made: Any = type("GraphModuleImpl", (base,), {"__module__": base.__module__})
        _own_classes.add(made)
        return object.__new__(made)  # type: ignore[no-any-return]

    def __init__(self, root: Any, graph: Graph, class_name: str = "GraphModule") -> None:
        super().__init__()
        type(self).__name__ = class_name
        wanted = [node.target for node in graph.nodes if node.op in ("get_attr", "call_module")]
        if isinstance(root, Module):
            self.training = root.training
            for path in wanted:
                _copy_attr(root, self, path)
        elif isinstance(root, dict):
            for path in sorted(set(wanted), key=lambda one: one.count(".")):
                if path not in root:
                    raise RuntimeError(
                        f"Node referenced target {path} but that target was not provided in `root`!"
                    )
                _assign(root[path], self, path)
        else:
            raise RuntimeError(f"Unsupported type {root} passed for root!")
        self.graph = graph
        self._tracer_cls = graph._tracer_cls
        self._tracer_extras = graph._tracer_extras or {}
        self.meta: dict[str, Any] = dict(getattr(root, "meta", None) or {})

    @property
    def graph(self) -> Graph:
        """The graph. Setting another graph generates `forward` again."""
        return self._graph

    @graph.setter
    def graph(self, given: Graph) -> None:
        if not isinstance(given, Graph):
            raise AssertionError(f"Expected a Graph instance, but got {type(given)}")
        self._graph = copy.deepcopy(given) if given.owning_module is not None else given
        self._graph.owning_module = self
        self.recompile()

    @property
    def code(self) -> str:
        """The text of `forward`."""
        if not hasattr(self, "_code"):
            raise RuntimeError("Code has not been generated! Please report a bug to PyTorch")
        return self._code

    def recompile(self) -> PythonCode:
        """Generate `forward` from the graph again, and return its text."""
        written = self._graph.python_code(root_module="self")
        self._code = written.src
        type(self).forward = _function_of(written)
        return written

    def add_submodule(self, target: str, m: Module) -> bool:
        """Add a module at a path, and the missing modules above it. Return False if an attribute
        above it is not a module, otherwise True.
        """
        *above, last = target.split(".")
        module: Any = self
        for part in above:
            found = getattr(module, part, None)
            if found is None:
                found = Module()
                setattr(module, part, found)
            if not isinstance(found, Module):
                return False
            module = found
        module.add_module(last, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        """Remove the module at a path; return whether the path led to a module."""
        path, _, last = target.rpartition(".")
        try:
            module = self.get_submodule(path)
        except AttributeError:
            return False
        if not isinstance(getattr(module, last, None), Module):
            return False
        delattr(module, last)
        return True

    def delete_all_unused_submodules(self) -> None:
        """Remove each submodule, unless a step uses it, a module in it, or a module around it."""
        used: set[str] = set()
        for node in self.graph.nodes:
            if node.op not in ("call_module", "get_attr"):
                continue
            parts = node.target.split(".")
            used.update(".".join(parts[:count]) for count in range(len(parts) + 1))
            if node.op == "call_module":
                below = self.get_submodule(node.target).named_modules()
                used.update(f"{node.target}.{path}" for path, _ in below if path)
        for path, _ in list(self.named_modules()):
            if path not in used:
                self.delete_submodule(path)

    def print_readable(self, print_output: bool = True, **kwargs: Any) -> str:
        """Return the text of the class; print it if print_output."""
        text = self.code.strip("\n").replace("\n", "\n    ")
        text = f"class {type(self).__name__}(torch.nn.Module):\n    {text}\n"
        if print_output:
            print(text)  # noqa: T201 (what it is for)
        return text

    def __deepcopy__(self, memo: dict[int, Any]) -> GraphModule:
        made = type(self).__new__(type(self))
        memo[id(self)] = made
        return self._fill(made, copy.deepcopy(_state_of(self), memo))

    def __copy__(self) -> GraphModule:
        return self._fill(type(self).__new__(type(self)), _state_of(self))

    def _fill(self, made: Any, state: dict[str, Any]) -> GraphModule:
        made.__dict__.update(state)
        type(made).__name__ = type(self).__name__
        graph = copy.deepcopy(self._graph)
        graph._owning_module = None
        made.graph = graph
        return made  # type: ignore[no-any-return]

    def __reduce__(self) -> Any:
        state = _state_of(self)
        base = next(kind for kind in type(self).__mro__ if kind not in _own_classes)
        return _restored, (base, type(self).__name__, state, self.code, self._tracer_cls)

    def __str__(self) -> str:
        return f"{super().__repr__()}\n{self.code}\n"


# The classes that `__new__` created, one for each instance.
_own_classes: WeakSet[type] = WeakSet()


def _state_of(module: GraphModule) -> dict[str, Any]:
    """Return the attributes of a GraphModule, except for the graph, which refers to the module, and
    the code.
    """
    return {key: one for key, one in module.__dict__.items() if key not in ("_graph", "_code")}


def _function_of(written: PythonCode) -> Any:
    """Compile generated text to a function. Tracebacks can show the lines of the text."""
    # The file name does not start with "<fastdist", because tracebacks hide files of such names.
    name = f"<graph {next(_numbers)}>"
    names = dict(written.globals)
    exec(compile(written.src, name, "exec"), names)
    lines = written.src.splitlines(keepends=True)
    linecache.cache[name] = (len(written.src), None, lines, name)
    made = names["forward"]
    weakref.finalize(made, linecache.cache.pop, name, None).atexit = False
    return made


class _CodeOnlyModule(Module):
    """A module with the given attributes, which is traced to restore a pickled GraphModule."""

    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__()
        self.__dict__ = body


def _globals_of_code() -> dict[str, Any]:
    return Writer([], "self").globals


def _restored(base: Any, name: str, state: dict[str, Any], code: str, tracer_cls: Any) -> Any:
    """Restore a pickled GraphModule: trace its forward again, with each submodule as one step."""

    class KeepModules(Tracer):
        def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
            return True

    forward = _function_of(PythonCode(code, _globals_of_code()))
    holder = type("CodeOnly", (_CodeOnlyModule,), {"forward": forward})(dict(state))
    graph = KeepModules().trace(holder)
    graph._tracer_cls = tracer_cls
    made: Any = base.__new__(base)
    made.__dict__.update(state)
    type(made).__name__ = name
    made.graph = graph
    return made


def _copy_attr(source: Any, target: Any, path: str) -> None:
    """Set the attribute of `target` at a path to the same object as in `source`."""
    *above, last = path.split(".")
    for part in above:
        found = getattr(source, part)
        if found is getattr(target, part, None):
            return  # `source` and `target` already share this module
        if not hasattr(target, part):
            setattr(target, part, Module())
        source, target = found, getattr(target, part)
    value = getattr(source, last)
    if isinstance(value, Tensor) and not isinstance(value, Parameter):
        persistent = last not in source._non_persistent_buffers_set
        if last in source._buffers:
            target.register_buffer(last, value, persistent=persistent)
            return
    setattr(target, last, value)


def _assign(value: Any, target: Any, path: str) -> None:
    """Set the attribute at a path to a value, and create the modules above it."""
    *above, last = path.split(".")
    for part in above:
        if not hasattr(target, part):
            setattr(target, part, Module())
        target = getattr(target, part)
    if isinstance(value, Tensor) and not isinstance(value, Parameter):
        target.register_buffer(last, value)
    else:
        setattr(target, last, value)


explain_missing(__name__)
