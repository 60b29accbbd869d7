"""Tracer: runs a module or function on Proxies to make its graph."""

from __future__ import annotations

import builtins
import functools
import inspect
import math
import operator
import sys
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

from ..core.missing import explain_missing
from ..nn.container import Sequential
from ..nn.module import Module
from ..tensor.parameter import Parameter
from ..tensor.tensor import Tensor
from .graph import Graph
from .names import root_module
from .node import Argument, Node
from .proxy import ParameterProxy, Proxy, TracerBase

__all__ = ["PH", "Tracer", "wrap"]

# Functions that `wrap` marked. (id of the module's globals, name) -> (the globals, name).
_wrapped: dict[tuple[int, str], tuple[dict[str, Any], str]] = {}
# A placeholder in concrete_args: the argument remains an input of the graph.
PH: Any = type("PHBase", (), {"__repr__": lambda self: "PH"})()
_VAR_FLAGS = {inspect.CO_VARARGS: "*", inspect.CO_VARKEYWORDS: "**"}


def wrap(fn_or_name: Any) -> Any:
    """Mark a function of the calling module, so that each call of the function becomes one step.

    Return the argument, which is the function or its name. Raise RuntimeError for an argument that
    is neither callable nor a str, and NotImplementedError if `wrap` is not called at the top level
    of the module.
    """
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError(
            "Unsupported type for global function! Must be either a callable or string name"
        )
    name = fn_or_name if isinstance(fn_or_name, str) else fn_or_name.__name__
    frame = sys._getframe(1)
    if frame.f_code.co_name != "<module>":
        raise NotImplementedError("wrap must be called at the top level of a module")
    _wrapped[id(frame.f_globals), name] = (frame.f_globals, name)
    return fn_or_name


class _Patcher:
    """Replaces attributes and globals, and restores them at the end of the `with` block."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []
        self.seen: set[int] = set()

    def __enter__(self) -> _Patcher:
        return self

    def __exit__(self, *error: object) -> None:
        while self._undo:
            self._undo.pop()()

    def patch_method(self, cls: type, name: str, new_fn: Any, deduplicate: bool = True) -> None:
        """Replace an attribute of a class."""
        if name in vars(cls):
            self._undo.append(functools.partial(setattr, cls, name, vars(cls)[name]))
        else:
            self._undo.append(functools.partial(delattr, cls, name))
        setattr(cls, name, new_fn)

    def patch(
        self, frame_dict: dict[str, Any], name: str, new_fn: Any, deduplicate: bool = True
    ) -> None:
        """Replace a global of a module."""
        if name in frame_dict:
            undo = functools.partial(frame_dict.__setitem__, name, frame_dict[name])
        else:
            undo = functools.partial(frame_dict.pop, name, None)
        self._undo.append(undo)
        frame_dict[name] = new_fn


class Tracer(TracerBase):
    """Makes the graph of a module. Subclasses choose the modules whose calls become one step.

    Args:
        autowrap_modules: Modules such as `math`. Calls of their functions with Proxies become
            steps. `math` if None.
        autowrap_functions: Other functions whose calls with Proxies become steps.
        param_shapes_constant: Whether the program may read the shapes of parameters during tracing.
    """

    def __init__(
        self,
        autowrap_modules: tuple[ModuleType, ...] | None = None,
        autowrap_functions: tuple[Callable[..., Any], ...] = (),
        param_shapes_constant: bool = False,
    ) -> None:
        super().__init__()
        modules = (math,) if autowrap_modules is None else autowrap_modules
        self._autowrap_function_ids = {
            id(one)
            for module in modules
            for name, one in vars(module).items()
            if not name.startswith("_") and callable(one)
        } | {id(one) for one in autowrap_functions}
        self._autowrap_search = list(modules)
        self.param_shapes_constant = param_shapes_constant
        self.submodule_paths: dict[Module, str] | None = None
        self.proxy_buffer_attributes = False
        self.module_stack: dict[str, Any] = {}
        self.root: Any = None
        self.tensor_attrs: dict[Tensor, str] = {}

    # ---- Methods that subclasses may override ---------------------------------------------------

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        """Return whether a call of module m becomes one step: True for the classes of `nn`, except
        for Sequential.
        """
        own = m.__module__.startswith(("fastdist.nn", "torch.nn"))
        return own and not isinstance(m, Sequential)

    def path_of_module(self, mod: Module) -> str:
        """Return the path of a submodule in the traced module.

        Raises  NameError if `mod` is not part of the traced module
        """
        if self.submodule_paths is not None:
            path = self.submodule_paths.get(mod)
        else:
            path = next((name for name, one in self.root.named_modules() if one is mod), None)
        if path is None:
            raise NameError("module is not installed as a submodule")
        return path

    def call_module(
        self, m: Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Trace a module's call: as one step for a leaf module, else through its forward."""
        path = self.path_of_module(m)
        if self.is_leaf_module(m, path):
            return self.create_proxy("call_module", path, args, kwargs)
        self.module_stack[path] = type(m)
        try:
            return forward(*args, **kwargs)
        finally:
            self.module_stack.pop(path, None)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        """Return a module's attribute during tracing; for a parameter, a Proxy."""
        if isinstance(attr_val, Parameter):
            named = self.root.named_parameters()
        elif self.proxy_buffer_attributes and isinstance(attr_val, Tensor):
            named = self.root.named_buffers()
        else:
            return attr_val
        name = next((name for name, one in named if one is attr_val), None)
        if name is None:
            return attr_val
        if name not in parameter_proxy_cache:
            make: dict[str, Any] = {}  # may stay empty: some overrides have no such parameter
            if self.param_shapes_constant:
                make["proxy_factory_fn"] = functools.partial(_parameter_proxy, self, name, attr_val)
            parameter_proxy_cache[name] = self.create_proxy("get_attr", name, (), {}, **make)
        return parameter_proxy_cache[name]

    def create_arg(self, a: Any) -> Argument:
        """Convert a value to an argument. Parameters, buffers and modules become `get_attr` steps.
        Other tensors are first stored as new attributes of the traced module.
        """
        if isinstance(a, Parameter):
            for name, one in self.root.named_parameters():
                if one is a:
                    return self.create_node("get_attr", name, (), {})
            raise NameError("parameter is not a member of this module")
        if isinstance(a, Tensor):
            for name, one in self.root.named_buffers():
                if one is a:
                    return self.create_node("get_attr", name, (), {})
            return self._constant("_tensor_constant", a)
        if isinstance(a, Module):
            return self.create_node("get_attr", self.path_of_module(a), (), {})
        return super().create_arg(a)

    def _constant(self, prefix: str, value: Any) -> Node:
        name = self.tensor_attrs.get(value)
        if name is None:
            number = 0
            while hasattr(self.root, f"{prefix}{number}"):
                number += 1
            name = f"{prefix}{number}"
            self.tensor_attrs[value] = name
            setattr(self.root, name, value)
        return self.create_node("get_attr", name, (), {})

    # ---- Tracing --------------------------------------------------------------------------------

    def trace(
        self, root: Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None
    ) -> Graph:
        """Return the graph of a module or a function.

        Args:
            root: The module or the function.
            concrete_args: Fixed values of arguments, by name.
        """
        if isinstance(root, Module):
            self.root, fn = root, type(root).forward
            self.root_module_name = root._get_name()
            self.submodule_paths = {one: name for name, one in root.named_modules()}
        else:
            self.root, fn = Module(), root
            self.submodule_paths = None
        self.graph = Graph(tracer_cls=type(self))
        self.tensor_attrs = {
            one: f"{path}.{name}" if path else name
            for path, module in self.root.named_modules()
            for name, one in vars(module).items()
            if isinstance(one, Tensor)
        }
        fn, args = self.create_args_for_root(fn, isinstance(root, Module), concrete_args)
        cache: dict[str, Any] = {}
        with _Patcher() as patcher:
            self._patch_modules(patcher, cache)
            _autowrap_check(patcher, getattr(fn, "__globals__", {}), self._autowrap_function_ids)
            _patch_wrapped_functions(patcher)
            for module in self._autowrap_search:
                _autowrap_check(patcher, vars(module), self._autowrap_function_ids)
            result = fn(*args)
            self.create_node("output", "output", (self.create_arg(result),), {})
        self.submodule_paths = None
        return self.graph

    def create_args_for_root(
        self, root_fn: Any, is_module: bool, concrete_args: Any = None
    ) -> tuple[Any, list[Any]]:
        """Return the function to run and its arguments: the fixed values, and Proxies for all other
        parameters.
        """
        function = inspect.unwrap(root_fn)
        if not isinstance(function, FunctionType):
            raise AssertionError(f"Expected FunctionType, got {type(function)}")
        code = function.__code__
        total = code.co_argcount + code.co_kwonlyargcount
        names = list(code.co_varnames[:total])
        args: list[Any] = []
        if is_module:
            args.append(self.root)
            names = names[1:]
        defaults = inspect.signature(function).parameters
        for name in names:
            args.append(self._input(name, defaults[name].default, concrete_args or {}))
        place = total
        for flag, stars in _VAR_FLAGS.items():
            if code.co_flags & flag:
                name = code.co_varnames[place]
                args.append(self.create_proxy("placeholder", stars + name, (), {}))
                place += 1
        if place > total or code.co_kwonlyargcount:
            return _with_flat_arguments(function, code), args
        return root_fn, args

    def _input(self, name: str, default: Any, concrete: dict[str, Any]) -> Any:
        given = () if default is inspect.Parameter.empty else (default,)
        if name not in concrete or concrete[name] is PH:
            return self.create_proxy("placeholder", name, given, {})
        value = concrete[name]
        made = self.create_proxy("placeholder", name, given, {})
        if isinstance(value, bool | int | float | str) or value is None:
            is_same: Any = operator.eq if value is not None else _as_step(operator.is_)
            check = is_same(made, value)
            told = f"{name} has been specialized to have value {value!r} but got another value"
            self.create_proxy("call_function", root_module()._assert, (check, told), {})
        return value

    def _patch_modules(self, patcher: _Patcher, cache: dict[str, Any]) -> None:
        call: Callable[..., Any] = Module.__call__
        read = Module.__getattr__

        @functools.wraps(call)
        def traced_call(module: Module, *args: Any, **kwargs: Any) -> Any:
            def forward(*args: Any, **kwargs: Any) -> Any:
                return call(module, *args, **kwargs)

            names = getattr(type(module).forward, "__globals__", {})
            _autowrap_check(patcher, names, self._autowrap_function_ids)
            return self.call_module(module, forward, args, kwargs)

        @functools.wraps(read)
        def traced_read(module: Module, name: str) -> Any:
            return self.getattr(name, read(module, name), cache)

        patcher.patch_method(Module, "__call__", traced_call)
        patcher.patch_method(Module, "__getattr__", traced_read)


def _autowrap_check(patcher: _Patcher, names: dict[str, Any], function_ids: set[int]) -> None:
    """Patch the functions with these ids in a module's globals, so that they become steps."""
    if id(names) in patcher.seen:
        return
    patcher.seen.add(id(names))
    for name, value in list(names.items()):
        if id(value) in function_ids and not name.startswith("_") and callable(value):
            patcher.patch(names, name, _as_step(value))


def _patch_wrapped_functions(patcher: _Patcher) -> None:
    """Patch the functions that `wrap` marked, so that they become steps."""
    for names, name in list(_wrapped.values()):
        original = names.get(name, getattr(builtins, name, None))
        patcher.patch(names, name, _as_step(original))


def _parameter_proxy(tracer: Tracer, name: str, param: Tensor, node: Node) -> ParameterProxy:
    return ParameterProxy(tracer, node, name, param)


def _as_step(original: Any) -> Any:
    """Return a function that adds a step which calls `original` if an argument is a Proxy, and
    otherwise calls `original`.
    """

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        proxy = _find_proxy((args, kwargs))
        if proxy is None:
            return original(*args, **kwargs)
        return proxy.tracer.create_proxy("call_function", original, args, kwargs)

    return call


def _find_proxy(value: Any) -> Proxy | None:
    if isinstance(value, Proxy):
        return value
    parts = value.values() if isinstance(value, dict) else value
    if isinstance(value, tuple | list | dict):
        return next((one for one in map(_find_proxy, parts) if one is not None), None)
    return None


def _with_flat_arguments(function: Any, code: Any) -> FunctionType:
    """Return the function with `*args`, `**kwargs` and keyword-only arguments as plain
    parameters.
    """
    flags = code.co_flags & ~(inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    flat = code.replace(
        co_argcount=count, co_posonlyargcount=0, co_kwonlyargcount=0, co_flags=flags
    )
    return FunctionType(flat, function.__globals__, function.__name__, None, function.__closure__)


explain_missing(__name__)
