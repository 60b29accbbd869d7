"""Parameter and Buffer, which nn re-exports; dispatch and RPC use Parameter as well."""

from __future__ import annotations

from typing import Any

from ..core.torch_function import NEVER_ASKED, disabled_torch_function, is_offered
from .subclasses import TensorType
from .tensor import Tensor


class _KindOfTensor(TensorType):
    """The metaclass of Parameter and Buffer. As in PyTorch, isinstance() also accepts a tensor of a
    user-defined class that has an attribute with the name in `mark`.
    """

    mark: str

    def __instancecheck__(cls, instance: Any) -> bool:
        if super().__instancecheck__(instance):
            return True
        return "mark" in vars(cls) and isinstance(instance, Tensor) and hasattr(instance, cls.mark)


def _made(kind: Any, data: Tensor | None, requires_grad: bool) -> Any:
    """Return `data`, or an empty tensor for None, as an instance of `kind`. A tensor of a
    user-defined class keeps its class, and gets the attribute with the name in `mark`.

    Raises  RuntimeError if detach() of a user-defined class returns an instance of another class
    """
    if data is not None and "mark" in vars(kind) and is_offered(data):
        return _marked(kind, data, requires_grad)
    made: Tensor = object.__new__(kind)
    source: Any = data.detach() if data is not None else _empty()
    if type(source)._array is not Tensor._array:
        # A subclass may define `_array` as a property.
        source = source.resolve_conj().resolve_neg()
    made._array, made._layout, made._storage = source._array, source._layout, source._storage
    made._edge = made._extra = None
    made.requires_grad_(requires_grad)
    return made


def _marked(kind: _KindOfTensor, data: Any, requires_grad: bool) -> Tensor:
    made: Tensor = data.detach()
    if type(made) is not type(data):
        raise RuntimeError(
            f"Creating a {kind.__name__} from an instance of type {type(data).__name__} requires "
            "that detach() returns an instance of the same type, but return type "
            f"{type(made).__name__} was found instead. To use the type as a {kind.__name__}, "
            "please correct the detach() semantics defined by its __torch_function__() "
            "implementation."
        )
    setattr(made.requires_grad_(requires_grad), kind.mark, True)
    return made


class Parameter(Tensor, metaclass=_KindOfTensor):
    """A Tensor that requires grad by default, and that a Module registers when it is assigned to an
    attribute of the Module. `data` of a user-defined class keeps its class, and also counts as a
    Parameter.

    Note    a Parameter accepts arbitrary attributes. Their dict does not slow down ops, because no
            op creates Parameters

    `Parameter(data, requires_grad=True)` shares memory with `data`.

    Raises  RuntimeError if requires_grad is true, and `data` is neither floating-point nor complex

    Args:
        data: The tensor whose memory the Parameter shares; an empty tensor if None.
        requires_grad: Whether autograd computes a gradient for the Parameter; if so, `data` must be
            floating-point or complex.

    Example:
        >>> weight = nn.Parameter(torch.zeros(2))
        >>> weight.requires_grad
        True
    """

    mark = "_is_param"

    __torch_function__ = disabled_torch_function

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Parameter:
        return _made(cls, data, requires_grad)  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()


class Buffer(Tensor, metaclass=_KindOfTensor):
    """A Tensor that a Module registers as a buffer when it is assigned to an attribute of the
    Module. A persistent Buffer is saved with the Module. `data` of a user-defined class keeps its
    class.
    """

    mark = "_is_buffer"
    persistent: bool
    __torch_function__ = disabled_torch_function

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Buffer:
        made: Buffer = _made(cls, data, data is not None and data.requires_grad)
        made.persistent = persistent
        return made


NEVER_ASKED.update({Parameter, Buffer})


def _empty() -> Tensor:
    import numpy as np

    from .tensor import from_array

    return from_array(np.empty((0,), np.float32))
