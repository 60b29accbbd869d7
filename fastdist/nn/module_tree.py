"""The members of a Module (parameters, buffers, children) by name, and iterators over them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ..core.folded_frames import fold, folds
from ..core.short_repr import short_repr
from ..tensor.parameter import Buffer, Parameter
from ..tensor.tensor import Tensor

# Hooks of users: each registration calls them with the module, the name and the value. A result
# other than None replaces the value: see global_hooks.py.
PARAMETER_HOOKS: dict[int, Callable[..., Any]] = {}
BUFFER_HOOKS: dict[int, Callable[..., Any]] = {}
MODULE_HOOKS: dict[int, Callable[..., Any]] = {}

# The type of a Module. It is Any because module.py imports this file, so the class is unknown here.
Child = Any


class ModuleTree:
    """Base of Module that registers attributes which are parameters, buffers or modules.

    The iterators below yield registered attributes only.

    Thread  only one thread at a time may change a module; several threads may read and call it
            concurrently
    """

    training: bool
    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Child]
    _non_persistent_buffers_set: set[str]

    def __init__(self) -> None:
        put = object.__setattr__
        put(self, "training", True)
        put(self, "_parameters", {})
        put(self, "_buffers", {})
        put(self, "_modules", {})
        put(self, "_non_persistent_buffers_set", set())

    def __getattr__(self, name: str) -> Any:
        # Python calls this method only if there is no ordinary attribute with this name.
        state = self.__dict__
        for kind in ("_parameters", "_buffers", "_modules"):
            found = state.get(kind)
            if found is not None and name in found:
                return found[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setattr__(self, name: str, value: Any) -> None:
        try:
            if isinstance(value, Parameter):
                self.__forget(name, "parameters", keep="_parameters")
                self.register_parameter(name, value)
                return
            if isinstance(value, ModuleTree):
                self.__forget(name, "module", keep="_modules")
                self._modules[name] = _through(MODULE_HOOKS, self, name, value)
                return
            if isinstance(value, Buffer):
                self.__forget(name, "buffer", keep="_buffers")
                self.register_buffer(name, value, value.persistent)
                return
            state = self.__dict__
            if name in state.get("_parameters", ()):
                _require_none(
                    value, f"as parameter '{name}' (fastdist.nn.Parameter or None expected)"
                )
                self._parameters[name] = None
            elif name in state.get("_modules", ()):
                _require_none(
                    value, f"as child module '{name}' (fastdist.nn.Module or None expected)"
                )
                self._modules[name] = None
            elif name in state.get("_buffers", ()):
                if not isinstance(value, Tensor):
                    _require_none(value, f"as buffer '{name}' (fastdist.Tensor or None expected)")
                self._buffers[name] = value
            else:
                object.__setattr__(self, name, value)
        except Exception as error:
            fold(error)
            raise

    def __delattr__(self, name: str) -> None:
        for kind in (self._parameters, self._buffers, self._modules):
            if name in kind:
                del kind[name]
                self._non_persistent_buffers_set.discard(name)
                return
        object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        names = {*super().__dir__(), *self._parameters, *self._buffers, *self._modules}
        return sorted(name for name in names if not name[:1].isdigit())

    def __forget(self, name: str, what: str, keep: str) -> None:
        state = self.__dict__
        if keep not in state:
            raise AttributeError(f"cannot assign {what} before Module.__init__() call")
        state.pop(name, None)
        for kind in ("_parameters", "_buffers", "_modules"):
            if kind != keep:
                state[kind].pop(name, None)
        self._non_persistent_buffers_set.discard(name)

    @folds
    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Register a parameter; None reserves the name.

        Raises  KeyError for a name that exists or has a dot, TypeError for a value that is not a
                Parameter, ValueError for a Parameter that is not a leaf
        """
        self.__require_name(name, "parameter", "_parameters")
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign '{type(param).__name__}' object to parameter '{name}' "
                "(fastdist.nn.Parameter or None required)"
            )
        if param is not None and param.grad_fn is not None:
            raise ValueError(
                f"Cannot assign non-leaf Tensor to parameter '{name}'. A parameter is a leaf: "
                "compute the value in forward() from parameters instead."
            )
        self._parameters[name] = _through(PARAMETER_HOOKS, self, name, param)

    @folds
    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Register a tensor that moves with the module but is not a parameter.

        The tensor is part of the state_dict if `persistent` is set.

        Raises  KeyError for a name that exists or has a dot, TypeError if tensor is not a Tensor
        """
        self.__require_name(name, "buffer", "_buffers")
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{type(tensor).__name__}' object to buffer '{name}' "
                "(fastdist.Tensor or None required)"
            )
        self._buffers[name] = _through(BUFFER_HOOKS, self, name, tensor)
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    @folds
    def add_module(self, name: str, module: Child) -> None:
        """Register a child module; None reserves the name.

        Raises  KeyError for a name that exists or has a dot, TypeError if module is not a Module
        """
        if module is not None and not isinstance(module, ModuleTree):
            given = module if isinstance(module, type) else type(module)
            hint = f": write {given.__name__}()" if issubclass(given, ModuleTree) else ""
            raise TypeError(f"{given.__name__} is not a Module subclass{hint}")
        self.__require_name(name, "module", "_modules")
        self._modules[name] = _through(MODULE_HOOKS, self, name, module)

    register_module = add_module

    def __require_name(self, name: str, kind: str, registry: str) -> None:
        if registry not in self.__dict__:
            raise AttributeError(f"cannot assign {kind} before Module.__init__() call")
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {type(name).__name__}")
        if "." in name:
            raise KeyError(f'{kind} name can\'t contain "."; got {short_repr(name)}')
        if not name:
            raise KeyError(f'{kind} name can\'t be empty string ""')
        if hasattr(self, name) and name not in self.__dict__[registry]:
            raise KeyError(f"attribute '{name}' already exists")

    def named_children(self) -> Iterator[tuple[str, Child]]:
        """Yield the name and module of each child; a module with several names is yielded once."""
        seen = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def children(self) -> Iterator[Child]:
        """Yield each child module once."""
        for _, module in self.named_children():
            yield module

    def named_modules(
        self, memo: set[Child] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Child]]:
        """Yield path and module, for this module and all its descendants, parents first."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                path = f"{prefix}.{name}" if prefix else name
                yield from module.named_modules(memo, path, remove_duplicate)

    def modules(self) -> Iterator[Child]:
        """Yield this module and all its descendants, each once."""
        for _, module in self.named_modules():
            yield module

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Yield path and parameter, for each parameter of this module and, if recurse is set, of
        its descendants.
        """
        return self.__members(lambda m: m._parameters, prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Yield each parameter of this module and, if recurse is set, of its descendants, once."""
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Yield path and buffer, for each buffer of this module and, if recurse is set, of its
        descendants.
        """
        return self.__members(lambda m: m._buffers, prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Yield each buffer of this module and, if recurse is set, of its descendants, once."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def __members(
        self,
        of: Callable[[Child], dict[str, Any]],
        prefix: str,
        recurse: bool,
        remove_duplicate: bool,
    ) -> Iterator[tuple[str, Any]]:
        seen = set()
        modules = (
            self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
            if recurse
            else iter([(prefix, self)])
        )
        for path, module in modules:
            for name, member in of(module).items():
                if member is None or member in seen:
                    continue
                if remove_duplicate:
                    seen.add(member)
                yield (f"{path}.{name}" if path else name), member

    @folds
    def get_submodule(self, target: str) -> Child:
        """Return the module at a dotted path; "" is this module.

        Raises  AttributeError that names the first attribute that is missing or not a Module
        """
        module: Child = self
        for name in target.split(".") if target else ():
            if not hasattr(module, name):
                raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
            module = getattr(module, name)
            if not isinstance(module, ModuleTree):
                raise AttributeError(f"`{name}` is not an nn.Module")
        return module

    def set_submodule(self, target: str, module: Child, strict: bool = False) -> None:
        """Set the module at a dotted path; if strict is set, there must already be a module.

        Raises  ValueError for an empty path or a value that is not a Module, AttributeError if the
                path does not lead to a module
        """
        if not target:
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, ModuleTree):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict and not hasattr(parent, name):
            raise AttributeError(f"{parent._get_name()} has no attribute `{name}`")
        if not isinstance(getattr(parent, name, module), ModuleTree):
            raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """Return the parameter at a dotted path.

        Raises  AttributeError if there is no parameter at the path
        """
        found = self.__at(target)
        if not isinstance(found, Parameter):
            raise AttributeError(f"`{target}` is not an nn.Parameter")
        return found

    def get_buffer(self, target: str) -> Tensor:
        """Return the buffer at a dotted path.

        Raises  AttributeError if there is no buffer at the path
        """
        path, _, name = target.rpartition(".")
        found: Tensor = self.__at(target)
        if name not in self.get_submodule(path)._buffers:
            raise AttributeError(f"`{name}` is not a buffer")
        return found

    def __at(self, target: str) -> Any:
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
        return getattr(module, name)


def _require_none(value: object, place: str) -> None:
    if value is not None:
        raise TypeError(f"cannot assign '{type(value).__name__}' {place}")


def _through(hooks: dict[int, Callable[..., Any]], module: Child, name: str, value: Any) -> Any:
    """Pass a value through all registration hooks, and return the result. None is returned without
    calling a hook.
    """
    if hooks and value is not None:
        for hook in tuple(hooks.values()):
            changed = hook(module, name, value)
            value = value if changed is None else changed
    return value
