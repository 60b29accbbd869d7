"""`torch.ops`: operators by namespace, name and overload, as in `ops.aten.add.Tensor(x, y)`.

An operator of the namespaces `aten` and `prims` calls fastdist's function of the same name, with
the parameters of fastdist's function; any overload name is accepted. All other namespaces contain
the operators that a program defines with `library`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, NoReturn

from .core.missing import refusing
from .core.refusing import refusing_class
from .tensor.tensor import Tensor

__all__ = ["HigherOrderOperator", "OpOverload", "OpOverloadPacket", "ops"]

HigherOrderOperator = refusing_class(
    __name__, "HigherOrderOperator", "there is no dispatcher: write a function of tensors"
)
# Operator -> the path of its function in fastdist, or ".name" for a method of Tensor, if the names
# differ.
_OTHER_NAMES = {
    "_local_scalar_dense": ".item",
    "_log_softmax": "nn.functional.log_softmax",
    "_reshape_alias": ".reshape",
    "_softmax": "nn.functional.softmax",
    "_to_copy": "to_copy",
    "_unsafe_view": ".reshape",
    "alias": ".view_as_itself",
    "gelu": "nn.functional.gelu",
    "lift_fresh": ".view_as_itself",
    "convert_element_type": ".to",
    "slice": "slice_along",
    "sym_numel": ".numel",
    "sym_size": ".size",
    "sym_stride": ".stride",
}


class OpOverload:
    """One overload of an operator. Calling it calls the operator.

    Args:
        packet: The operator.
        overload: The overload's name, such as "Tensor" or "default".
    """

    def __init__(self, packet: OpOverloadPacket, overload: str) -> None:
        self._packet = packet
        self._overloadname = overload
        self.__name__ = f"{packet.__name__}.{overload}"
        self.__qualname__ = self.__name__
        self.__module__ = f"fastdist._ops.{packet.namespace}"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._packet.function(self._overloadname)(*args, **kwargs)

    @property
    def namespace(self) -> str:
        """The operator's namespace."""
        return self._packet.namespace

    @property
    def overloadpacket(self) -> OpOverloadPacket:
        """The operator, with all its overloads."""
        return self._packet

    def name(self) -> str:
        """Return the full name, such as "aten::add.Tensor"."""
        suffix = "" if self._overloadname == "default" else f".{self._overloadname}"
        return f"{self._packet.qualified_name}{suffix}"

    def __str__(self) -> str:
        return f"{self.namespace}.{self.__name__}"

    def __repr__(self) -> str:
        return f"<OpOverload(op='{self._packet}', overload='{self._overloadname}')>"

    def __deepcopy__(self, memo: Any) -> OpOverload:
        return self


class OpOverloadPacket:
    """An operator. Calling it calls its default overload; its attributes are the overloads.

    Args:
        namespace: The namespace of the operator, such as "aten".
        name: The name of the operator, such as "add".
        function: A callable that returns the function for an overload's name.
        overloads: The names of the overloads that a program defined; None allows any name.
    """

    def __init__(
        self,
        namespace: str,
        name: str,
        function: Callable[[str], Callable[..., Any]],
        overloads: list[str] | None = None,
    ) -> None:
        self.namespace = namespace
        self.function = function
        self.__name__ = name
        self._overload_names = overloads
        self._made: dict[str, OpOverload] = {}

    @property
    def qualified_name(self) -> str:
        """The name with the namespace, such as "aten::add"."""
        return f"{self.namespace}::{self.__name__}"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function("default")(*args, **kwargs)

    def __getattr__(self, name: str) -> OpOverload:
        known = self._overload_names
        if name.startswith("__") or (known is not None and name not in known):
            raise AttributeError(
                f"The underlying op of '{self.namespace}.{self.__name__}' has no overload name "
                f"'{name}'"
            )
        if name not in self._made:
            self._made[name] = OpOverload(self, name)
        return self._made[name]

    def overloads(self) -> list[str]:
        """Return the names of the overloads that a program defined. For an operator that accepts
        any overload name, return the names that the program has used.
        """
        return [*self._made] if self._overload_names is None else [*self._overload_names]

    def __str__(self) -> str:
        return f"{self.namespace}.{self.__name__}"

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='{self}')>"

    def __deepcopy__(self, memo: Any) -> OpOverloadPacket:
        return self


class OpNamespace(ModuleType):
    """The operators of a namespace, which are looked up on first access."""

    def __init__(self, name: str) -> None:
        super().__init__(f"fastdist.ops.{name}")
        self.name = name

    def __getattr__(self, op_name: str) -> OpOverloadPacket:
        if not op_name.startswith("__") and self.name in ("aten", "prims"):
            function = find_function(op_name) or _refused(op_name)
            if function is not None:
                made = OpOverloadPacket(self.name, op_name, lambda overload: function)
                vars(self)[op_name] = made
                return made
        raise AttributeError(f"'_OpNamespace' '{self.name}' object has no attribute '{op_name}'")

    def __iter__(self) -> Iterator[str]:
        return iter([name for name, op in vars(self).items() if isinstance(op, OpOverloadPacket)])


class Ops(ModuleType):
    """All namespaces of operators, including those that programs define with `library`."""

    def __init__(self) -> None:
        super().__init__("fastdist.ops")
        self.loaded_libraries: set[str] = set()

    def __getattr__(self, name: str) -> OpNamespace:
        if name.startswith("__"):
            raise AttributeError(name)
        made = vars(self)[name] = OpNamespace(name)
        return made

    def load_library(self, path: Any) -> NoReturn:
        """Raise OSError: a library of C++ operators needs PyTorch's C++ library.

        Raises  OSError always, as PyTorch does for a library that it cannot load
        """
        raise OSError(
            f"Could not load this library: {path}. fastdist does not load operators that are "
            "compiled for PyTorch; define them in Python with torch.library.custom_op"
        )

    import_module = load_library


def find_function(name: str) -> Callable[..., Any] | None:
    """Return fastdist's function for an operator of `aten`, or None if there is none."""
    path = _OTHER_NAMES.get(name, name)
    if path == ".view_as_itself":
        return lambda input: input.view_as(input)
    if path in _OWN:
        return _OWN[path]
    fastdist: Any = sys.modules["fastdist"]
    if not path.startswith("."):
        for room in ("", "nn.functional."):
            found = _find_path(fastdist, room + path)
            if found is not None:
                return found
        for prefix in ("linalg", "special", "fft"):
            if path.startswith(f"{prefix}_"):
                found = _find_path(fastdist, f"{prefix}.{path.removeprefix(prefix)[1:]}")
                if found is not None:
                    return found
    method = getattr(Tensor, path.lstrip("."), None)
    return method if callable(method) else None


def _refused(name: str) -> Callable[..., Any] | None:
    from .core.aten_names import REFUSED

    if name not in REFUSED:
        return None
    return refusing("torch.ops.aten", name, "fastdist does not have this operator of PyTorch")


def _find_path(root: Any, path: str) -> Callable[..., Any] | None:
    for name in path.split("."):
        root = getattr(root, name, None)
    return root if callable(root) and not isinstance(root, type) else None


def to_copy(
    input: Tensor,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool | None = None,
    non_blocking: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """Return a copy of a tensor with a dtype and on a device: the operator `aten::_to_copy`."""
    more = {} if memory_format is None else {"memory_format": memory_format}
    copied: Tensor = input.to(
        device=input.device if device is None else device,
        dtype=input.dtype if dtype is None else dtype,
        non_blocking=non_blocking,
        copy=True,
        **more,
    )
    return copied


def slice_along(
    input: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    """Return the view input[start:end:step] along the axis `dim`: the operator `aten::slice`."""
    before = (slice(None),) * (dim % input.ndim)
    return input[(*before, slice(start, end, step))]


_OWN: dict[str, Callable[..., Any]] = {"slice_along": slice_along, "to_copy": to_copy}
ops = Ops()
