"""PyTorch's module nn.parameter: Parameter, and parameters and buffers of lazy modules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.dtypes import DType
from ..core.torch_function import disabled_torch_function
from ..ops.create.creation import empty
from ..tensor.parameter import Buffer, Parameter
from ..tensor.parameter import _KindOfTensor as _ParameterMeta  # noqa: F401
from ..tensor.tensor import Tensor

__all__ = ["Buffer", "Parameter", "UninitializedBuffer", "UninitializedParameter", "is_lazy"]


# The methods that work without a shape, because they do not read any values.
_ALLOWED = {
    "size", "copy_", "is_complex", "is_floating_point", "half", "float", "double", "char",
    "short", "int", "long", "type", "cuda", "cpu", "to", "to_numpy", "get_device",
    "requires_grad_", "share_memory_",
}  # fmt: skip
_OPERATORS = {
    "__add__", "__radd__", "__sub__", "__rsub__", "__mul__", "__rmul__", "__truediv__",
    "__rtruediv__", "__matmul__", "__rmatmul__", "__pow__", "__rpow__", "__neg__", "__getitem__",
    "__setitem__", "__len__", "__iter__",
}  # fmt: skip


class UninitializedTensorMixin:
    """Base of tensors with a dtype and a device, but no shape until materialize() sets the shape.

    Until then, any method that needs values raises ValueError.
    """

    __slots__ = ()
    cls_to_become: type[Tensor] = Tensor

    def materialize(
        self, shape: Sequence[int], device: Any = None, dtype: DType | None = None
    ) -> None:
        """Turn this object into an ordinary tensor of a shape, with uninitialized values."""
        own: Any = self
        now = own.data
        made = empty(shape, device=device or now.device, dtype=dtype or now.dtype)
        own.__class__ = self.cls_to_become
        own.data = made

    @property
    def shape(self) -> Any:
        """Raise RuntimeError, because there is no shape yet."""
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. This error usually "
            "happens in `load_state_dict` when trying to load an uninitialized parameter into an "
            "initialized one. Call `forward` to initialize the parameters before accessing their "
            "attributes."
        )

    def share_memory_(self) -> Any:
        """Raise RuntimeError, because there is no memory to share."""
        raise RuntimeError(
            "Can't share memory on an uninitialized parameter or buffer. Call `forward` to "
            "initialize the parameters before calling `module.share_memory()`."
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


def _refusing(name: str) -> Any:
    def refuse(self: Any, *_: Any, **__: Any) -> Any:
        kind = type(self).__name__
        raise ValueError(
            f"Attempted to use an uninitialized parameter in {name}. This error happens when you "
            f"are using a `LazyModule` or explicitly manipulating `torch.nn.parameter.{kind}` "
            "objects. When using LazyModules Call `forward` with a dummy batch to initialize the "
            "parameters before calling torch functions"
        )

    return refuse


for _name in dir(Tensor):
    _asks = _name in _OPERATORS or not (_name.startswith("_") or _name in _ALLOWED)
    if _asks and callable(getattr(Tensor, _name)):
        setattr(UninitializedTensorMixin, _name, _refusing(_name))


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A parameter without a shape, as in a lazy module that has not been called yet."""

    cls_to_become = Parameter

    def __new__(
        cls, requires_grad: bool = True, device: Any = None, dtype: DType | None = None
    ) -> UninitializedParameter:
        made = super().__new__(cls, empty(0, device=device, dtype=dtype), requires_grad)
        assert isinstance(made, UninitializedParameter)
        return made

    def __reduce__(self) -> Any:
        now = self.data
        return type(self), (self.requires_grad, str(now.device), now.dtype)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        now = self.data
        return memo.setdefault(id(self), type(self)(self.requires_grad, now.device, now.dtype))


class UninitializedBuffer(UninitializedTensorMixin, Tensor):
    """A buffer without a shape, as in a lazy module that has not been called yet."""

    __slots__ = ()
    __torch_function__ = disabled_torch_function
    persistent: bool

    def __new__(
        cls,
        requires_grad: bool = False,
        device: Any = None,
        dtype: DType | None = None,
        persistent: bool = True,
    ) -> UninitializedBuffer:
        source = empty(0, device=device, dtype=dtype)
        made: UninitializedBuffer = object.__new__(cls)
        made._array, made._layout, made._storage = source._array, source._layout, source._storage
        made._edge = made._extra = None
        setattr(made, Buffer.mark, True)
        made.persistent = persistent
        return made

    def __reduce__(self) -> Any:
        now = self.data
        return type(self), (False, str(now.device), now.dtype, self.persistent)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        now = self.data
        again = type(self)(False, now.device, now.dtype, self.persistent)
        return memo.setdefault(id(self), again)


def is_lazy(param: Any) -> bool:
    """Return whether param has no shape yet."""
    return isinstance(param, UninitializedTensorMixin)


def still_lazy(before: Tensor, after: Tensor) -> Tensor:
    """Return `after`, which is `before` moved or converted. If the buffer `before` has no shape,
    return an UninitializedBuffer with the device and dtype of `after`.
    """
    if not isinstance(before, UninitializedBuffer):
        return after
    return UninitializedBuffer(False, after.device, after.dtype, before.persistent)
