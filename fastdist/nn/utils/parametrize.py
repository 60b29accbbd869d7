"""Parametrizations: tensors of a module that are computed from `original` at each access."""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ...core.missing import show_public
from ...graph.modes import no_grad
from ...tensor.parameter import Parameter
from ...tensor.tensor import Tensor
from ..container import ModuleDict, ModuleList
from ..module import Module

__all__ = [
    "ParametrizationList",
    "cached",
    "is_parametrized",
    "register_parametrization",
    "remove_parametrizations",
    "transfer_parametrizations_and_params",
    "type_before_parametrizations",
]


class _Kept(threading.local):
    """The tensors that a thread has computed inside cached(), by module id and tensor name."""

    depth = 0
    found: dict[tuple[int, str], Any]


_kept = _Kept()


@contextmanager
def cached() -> Iterator[None]:
    """Compute each parametrized tensor only once inside the with block, in this thread."""
    if not _kept.depth:
        _kept.found = {}
    _kept.depth += 1
    try:
        yield
    finally:
        _kept.depth -= 1
        if not _kept.depth:
            _kept.found = {}


def _register(module: Module, name: str, tensor: Tensor) -> None:
    if isinstance(tensor, Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, applied in order to `original`.

    If the right_inverse of the first parametrization returns several tensors, these originals are
    `original0`, `original1` ...
    """

    def __init__(self, modules: Sequence[Module], original: Any, unsafe: bool = False) -> None:
        if not modules:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        with no_grad():
            new: Any = original
            for module in reversed(list(self)):
                if hasattr(module, "right_inverse"):
                    try:
                        new = module.right_inverse(new)
                    except NotImplementedError:
                        pass  # as in PyTorch, this parametrization then leaves the value unchanged
        if not isinstance(new, Tensor | Sequence):
            raise ValueError(
                "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                f"Got {type(new).__name__}"
            )
        shape, dtype = original.shape, original.dtype
        self.is_tensor = isinstance(new, Tensor)
        self.ntensors = 1 if self.is_tensor else len(new)
        if isinstance(new, Tensor):
            if (dtype, original.device) != (new.dtype, new.device):
                raise ValueError(
                    "When `right_inverse` outputs one tensor, it may not change the dtype or the "
                    f"device.\noriginal: {dtype}, {original.device}\n"
                    f"right_inverse(original): {new.dtype}, {new.device}"
                )
            original.data = new.detach()
            _register(self, "original", original)
        else:
            for i, one in enumerate(new):
                if not isinstance(one, Tensor):
                    raise ValueError(
                        "'right_inverse' must return a Tensor or a Sequence of tensors (list, "
                        f"tuple...). Got element {i} of the sequence with type "
                        f"{type(one).__name__}."
                    )
                made = one.detach()
                if isinstance(original, Parameter):
                    made = Parameter(made, original.requires_grad)
                _register(self, f"original{i}", made)
        if not unsafe:
            _require_like(self(), shape, dtype)

    def right_inverse(self, value: Any) -> None:
        """Set the originals so that the parametrized tensor becomes value.

        Raises  RuntimeError if a parametrization has no right_inverse
        """
        with no_grad():
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(
                        f"parametrization {type(module).__name__} does not implement right_inverse."
                    )
                value = module.right_inverse(value)
            if self.is_tensor:
                self.original.data = value.detach()
                return
            if len(value) != self.ntensors:
                raise ValueError(
                    "'right_inverse' must return a sequence of tensors of length "
                    f"{self.ntensors}. Got a sequence of length {len(value)}."
                )
            for i, one in enumerate(value):
                getattr(self, f"original{i}").data = one.detach()

    def forward(self) -> Tensor:
        """Return the parametrized tensor."""
        first, *rest = self
        if self.is_tensor:
            found = first(self.original)
        else:
            found = first(*[getattr(self, f"original{i}") for i in range(self.ntensors)])
        for module in rest:
            found = module(found)
        return found  # type: ignore[no-any-return]


def _require_like(found: Any, shape: Any, dtype: Any) -> None:
    if not isinstance(found, Tensor):
        raise ValueError(f"A parametrization must return a tensor. Got {type(found).__name__}.")
    for what, before, after in (("dtype", dtype, found.dtype), ("shape", shape, found.shape)):
        if before != after:
            raise ValueError(
                f"Registering a parametrization may not change the {what} of the tensor, unless "
                f"`unsafe` flag is enabled.\nunparametrized {what}: {before}\n"
                f"parametrized {what}: {after}"
            )


def _no_pickle(self: Module) -> Any:
    raise RuntimeError(
        "Serialization of parametrized modules is only supported through state_dict()."
    )


def _deepcopy(self: Module, memo: dict[int, Any]) -> Any:
    made = memo[id(self)] = self.__new__(type(self))
    made.__dict__.update(copy.deepcopy(self.__dict__, memo))
    return made


def _property(name: str) -> property:
    def get(self: Any) -> Tensor:
        parametrization = self.parametrizations[name]
        if not _kept.depth:
            return parametrization()  # type: ignore[no-any-return]
        key = (id(self), name)
        if key not in _kept.found:
            _kept.found[key] = parametrization()
        return _kept.found[key]  # type: ignore[no-any-return]

    def put(self: Any, value: Tensor) -> None:
        self.parametrizations[name].right_inverse(value)

    return property(get, put)


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Replace module's parameter or buffer by parametrization(original).

    If the tensor already has a parametrization, this one is applied after it.

    Raises  ValueError for an unknown name or, unless unsafe, for a result of another shape or dtype
    Note    the module's class is replaced by a new subclass in which the tensor is a property
    """
    parametrization.train(module.training)
    own: Any = module
    if is_parametrized(module, tensor_name):
        if not unsafe:
            now = getattr(module, tensor_name)
            _require_like(parametrization(now), now.shape, now.dtype)
        own.parametrizations[tensor_name].append(parametrization)
        own.parametrizations[tensor_name].unsafe |= unsafe
        return module
    if tensor_name not in module._buffers and tensor_name not in module._parameters:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element "
            f"with name '{tensor_name}'"
        )
    made = ParametrizationList([parametrization], getattr(module, tensor_name), unsafe)
    delattr(module, tensor_name)
    if not is_parametrized(module):
        kind = type(module)
        names = {"__getstate__": _no_pickle, "__deepcopy__": _deepcopy}
        own.__class__ = type(f"Parametrized{kind.__name__}", (kind,), names)
        own.parametrizations = ModuleDict()
    setattr(type(module), tensor_name, _property(tensor_name))
    own.parametrizations[tensor_name] = made
    return module


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Return whether module has a parametrized tensor.

    If tensor_name is given, return whether that tensor is parametrized.
    """
    found = getattr(module, "parametrizations", None)
    if not isinstance(found, ModuleDict):
        return False
    return len(found) > 0 if tensor_name is None else tensor_name in found


def remove_parametrizations(
    module: Module, tensor_name: str, leave_parametrized: bool = True
) -> Module:
    """Make a parametrized tensor an ordinary parameter or buffer again.

    The tensor keeps its current value if leave_parametrized is True; otherwise, it gets the value
    of `original`.

    Raises  ValueError if the tensor has no parametrization, or if leave_parametrized is False and
            the tensor has several originals
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    own: Any = module
    made = own.parametrizations[tensor_name]
    with no_grad():
        now = getattr(module, tensor_name)
    if made.is_tensor:
        original = made.original
        if leave_parametrized:
            original.data = now.detach()
    elif leave_parametrized:
        learns = isinstance(made.original0, Parameter)
        original = Parameter(now, made.original0.requires_grad) if learns else now.detach()
    else:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is "
            "parametrized in terms of a sequence of tensors."
        )
    delattr(type(module), tensor_name)
    del own.parametrizations[tensor_name]
    _register(module, tensor_name, original)
    if not is_parametrized(module):
        del own.parametrizations
        own.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module: Module) -> type:
    """Return the class that module had before it was parametrized."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """Give to_module the parametrizations and originals of from_module.

    `tensor_name` selects one tensor; None means all parametrized tensors.
    """
    if not is_parametrized(from_module):
        return to_module
    given: Any = from_module.parametrizations
    for name in list(given) if tensor_name is None else [tensor_name]:
        if not hasattr(to_module, name):
            with no_grad():
                setattr(to_module, name, Parameter(getattr(from_module, name)))
        for function in given[name]:
            register_parametrization(to_module, name, function)
        made = to_module.parametrizations[name]
        for key, original in given[name].named_parameters(recurse=False):
            setattr(made, key, original)
        for key, original in given[name].named_buffers(recurse=False):
            setattr(made, key, original)
    return to_module


show_public(__name__)
