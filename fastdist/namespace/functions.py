"""Tensor methods that are not ops, such as backward, numpy and indexing, or that combine ops."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..core.caller_warning import warn_caller
from ..core.errors import ShapeError
from ..core.folded_frames import folds
from ..core.short_repr import short_repr
from ..core.torch_function import DisableTorchFunctionSubclass
from ..dispatch.composite import inplace_of
from ..dispatch.inplace import copy_, fill_, zero_
from ..engine.backward import backward as engine_backward
from ..engine.backward import grad as engine_grad
from ..graph.forward_grad import ForwardADLevel
from ..graph.gradient_edge import Inputs, given_inputs
from ..graph.lazy_conj_neg import LazyConjNeg, resolved
from ..graph.tensor_tangents import tangent_of
from ..interpreters.batch_loop import batch_like
from ..interpreters.batched_tensor import Batched
from ..interpreters.sparse_rules import refusal
from ..interpreters.torch_function import overridable_by_modes
from ..ops.create import creation
from ..ops.index import subscript
from ..ops.reduce.slopes_at_zero import use_engine
from ..ops.refusals import require_given
from ..ops.shape import as_strided, set_memory, views
from ..ops.shape.splitting import unbind
from ..ops.shape.view_inplace import detach, detach_, view_inplace_of
from ..ops.sparse import conversion
from ..tensor import dlpack, pickling, shared_memory, typed_storage
from ..tensor.axes import sizes_of
from ..tensor.memory import bound, root_of, storage_offset
from ..tensor.methods import TensorMethods
from ..tensor.promotion import get_default_dtype
from ..tensor.storage import storage_of
from ..tensor.tensor import Tensor, wrap
from . import as_numpy, by_element, questions
from .catalogue import COMPOSITES, OPS


@overridable_by_modes
def backward(
    self: Tensor,
    gradient: Tensor | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Inputs | None = None,
) -> None:
    """Add this tensor's gradients to the `.grad` of the graph's leaves, or only of `inputs`.

    Thread  runs in the calling thread; passes of other threads through the same leaves may overlap
    Raises  RuntimeError if this tensor does not require grad, or if it has several elements and no
            gradient is given

    Args:
        gradient: The gradient with respect to this tensor, of its shape; 1 if None, which only a
            tensor with one element allows.
        retain_graph: Whether to keep the graph for a second pass; the value of create_graph if
            None.
        create_graph: Whether to record the pass, for second derivatives.
        inputs: The tensors or graph edges whose `.grad` receives gradients: one, several, or a
            dict; all leaves if None.

    Example:
        >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
        >>> (x * x).sum().backward()
        >>> x.grad
        tensor([2., 4.])
    """
    wanted = None if inputs is None else given_inputs(inputs, "backward")
    engine_backward((self,), (gradient,), retain_graph, create_graph, wanted)


@overridable_by_modes
def where(self: Tensor, condition: Tensor, other: Any) -> Tensor:
    """Return the elements of this tensor where `condition` holds, and of `other` elsewhere.

    Raises  RuntimeError if the shapes do not broadcast

    Args:
        condition: A tensor of bool that broadcasts with this tensor.
        other: A number or a tensor.

    Example:
        >>> x = torch.tensor([-1.0, 2.0])
        >>> x.where(x > 0, 0.0)
        tensor([0., 2.])
    """
    return OPS["where"].public(condition, self, other)  # type: ignore[no-any-return]


@overridable_by_modes
def new_zeros(
    self: Tensor, *size: Any, dtype: Any = None, device: Any = None, **more: Any
) -> Tensor:
    """Return a tensor of zeros, by default in this tensor's dtype and on its device.

    Raises  TypeError if a length is not an integer, or if no length is given; RuntimeError if a
            length is negative

    Args:
        *size: The lengths of the axes, as numbers or as one tuple.
        dtype: The dtype; this tensor's if None.
        device: The device of the result; this tensor's if None.
        **more: Further arguments of `zeros`.

    Example:
        >>> torch.ones(1, dtype=torch.float64).new_zeros(2)
        tensor([0., 0.], dtype=fastdist.float64)
    """
    _require_size("new_zeros", size, more)
    if self._layout.is_sparse:
        return _no_entries(self, size, dtype, device, **more)
    made = creation.zeros(*size, **_like(self, dtype, device), **more)
    return batch_like(self, made) if isinstance(self, Batched) else made


@overridable_by_modes
def new_ones(
    self: Tensor, *size: Any, dtype: Any = None, device: Any = None, **more: Any
) -> Tensor:
    """Return a tensor of ones, by default in this tensor's dtype and on its device.

    Raises  TypeError if a length is not an integer, or if no length is given; RuntimeError if a
            length is negative

    Args:
        *size: The lengths of the axes, as numbers or as one tuple.
        dtype: The dtype; this tensor's if None.
        device: The device of the result; this tensor's if None.
        **more: Further arguments of `ones`.

    Example:
        >>> torch.ones(1, dtype=torch.int64).new_ones(2)
        tensor([1, 1])
    """
    _require_size("new_ones", size, more)
    _require_dense("new_ones", self)
    made = creation.ones(*size, **_like(self, dtype, device), **more)
    return batch_like(self, made) if isinstance(self, Batched) else made


@overridable_by_modes
def new_empty(
    self: Tensor, *size: Any, dtype: Any = None, device: Any = None, **more: Any
) -> Tensor:
    """Return an uninitialized tensor, by default in this tensor's dtype and on its device.

    Raises  TypeError if a length is not an integer, or if no length is given; RuntimeError if a
            length is negative

    Args:
        *size: The lengths of the axes, as numbers or as one tuple.
        dtype: The dtype; this tensor's if None.
        device: The device of the result; this tensor's if None.
        **more: Further arguments of `empty`.

    Example:
        >>> torch.ones(1, dtype=torch.int8).new_empty(2, 3).dtype
        fastdist.int8
    """
    _require_size("new_empty", size, more)
    if self._layout.is_sparse:
        return _no_entries(self, size, dtype, device, **more)
    made = creation.empty(*size, **_like(self, dtype, device), **more)
    return batch_like(self, made) if isinstance(self, Batched) else made


@folds
def new_empty_strided(
    self: Tensor, size: Any, stride: Any, dtype: Any = None, device: Any = None, **more: Any
) -> Tensor:
    """Return an uninitialized tensor with these lengths and strides, by default in this tensor's
    dtype and on its device.
    """
    from ..ops.create.from_memory import empty_strided

    made = empty_strided(size, stride, **_like(self, dtype, device), **more)
    return batch_like(self, made) if isinstance(self, Batched) else made


@overridable_by_modes
def new_full(
    self: Tensor, size: Any, fill_value: Any, dtype: Any = None, device: Any = None, **more: Any
) -> Tensor:
    """Return a tensor filled with fill_value, by default in this tensor's dtype and on its device.

    Raises  TypeError if size is not a tuple of integers, or fill_value is not a number;
            RuntimeError if a length is negative

    Args:
        size: The lengths of the axes, as a tuple.
        fill_value: The number; for an integer dtype, a fraction is cut off: 2.7 becomes 2.
        dtype: The dtype; this tensor's if None.
        device: The device of the result; this tensor's if None.
        **more: Further arguments of `full`.

    Example:
        >>> torch.ones(1).new_full((2,), 7)
        tensor([7., 7.])
    """
    _require_dense("new_full", self)
    made = creation.full(size, fill_value, **_like(self, dtype, device), **more)
    return batch_like(self, made) if isinstance(self, Batched) else made


def _require_size(name: str, size: tuple[Any, ...], more: dict[str, Any]) -> None:
    if "size" not in more:
        require_given(name, "size", size)


def _no_entries(self: Tensor, size: Any, dtype: Any, device: Any, **more: Any) -> Tensor:
    options = {**_like(self, dtype, device), **more}
    return conversion.sparse_coo_tensor(size=sizes_of(size), **options)


@overridable_by_modes
def new_tensor(
    self: Tensor, data: Any, dtype: Any = None, device: Any = None, **more: Any
) -> Tensor:
    """Return a copy of data, by default in this tensor's dtype and on its device."""
    _require_dense("new_tensor", self)
    return creation.tensor(data, **_like(self, dtype, device), **more)


def _require_dense(name: str, self: Tensor) -> None:
    if self._layout.is_sparse:
        raise refusal(name, self)


def _like(self: Tensor, dtype: Any, device: Any) -> dict[str, Any]:
    layout = self._layout
    return {"dtype": dtype or layout.dtype, "device": layout.device if device is None else device}


def _data(self: Tensor) -> Tensor:
    """A tensor with the same memory, outside of the graph; an assignment replaces the memory."""
    # As in PyTorch, changes through .data do not increase the version counter, so they are not
    # detected.
    data = wrap(self._array, self._layout)
    return data if self._storage is None else bound(data, root_of(self))


def _set_data(self: Tensor, data: Tensor) -> None:
    if not isinstance(data, Tensor):
        raise TypeError(f"Variable data has to be a tensor, but got {type(data).__name__}")
    # Keep the version counter: a Node that saved this tensor must detect the change.
    version, data = self._version, resolved(data)
    self._array, self._layout = data._array, data._layout
    self._storage = None
    if data._storage is not None:
        bound(self, root_of(data))
    if version:
        storage_of(self).version = version
    if self._edge is not None and self._edge.is_accumulate:
        self._edge.attach(self)


def _transposed(self: Tensor) -> Tensor:
    """This tensor with its axes in the opposite order."""
    if len(self._layout.shape) == 2:
        return OPS["permute"].public(self, 1, 0)  # type: ignore[no-any-return]
    if not self._layout.shape:
        warn_caller(
            "Tensor.T is deprecated on 0-D tensors. This function is the identity in these cases.",
            once=True,
        )
    else:
        warn_caller(
            "The use of `x.T` on tensors of dimension other than 2 to reverse their shape is "
            "deprecated and it will throw an error in a future release. Consider `x.mT` to "
            "transpose batches of matrices or `x.permute(*torch.arange(x.ndim - 1, -1, -1))` to "
            "reverse the dimensions of a tensor.",
            once=True,
        )
    return OPS["permute"].public(self, *range(len(self._layout.shape))[::-1])  # type: ignore[no-any-return]


def _matrices_transposed(self: Tensor) -> Tensor:
    """This tensor with its last two axes swapped; a 0-d tensor is returned unchanged.

    Raises  RuntimeError for a 1-d tensor
    """
    ndim = len(self._layout.shape)
    if ndim == 1:
        raise ShapeError(
            "tensor.mT is only supported on matrices or batches of matrices. Got 1-D tensor."
        )
    if not ndim:
        warn_caller(
            "Tensor.mT is deprecated on 0-D tensors. This function is the identity in these cases.",
            once=True,
        )
        return OPS["permute"].public(self)  # type: ignore[no-any-return]
    return OPS["transpose"].public(self, -2, -1)  # type: ignore[no-any-return]


def _adjoint(self: Tensor) -> Tensor:
    """This tensor with its last two axes swapped, and with complex numbers conjugated."""
    return COMPOSITES["conj"].call(_matrices_transposed(self))  # type: ignore[no-any-return]


def _matrix_adjoint(self: Tensor) -> Tensor:
    """The adjoint of a matrix.

    Raises  RuntimeError unless the tensor has 0 or 2 axes
    """
    if len(self._layout.shape) not in (0, 2):
        raise ShapeError(
            "tensor.H is only supported on matrices (2-D tensors). Got "
            f"{len(self._layout.shape)}-D tensor. For batches of matrices, consider using tensor.mH"
        )
    swapped = _matrices_transposed(self) if self._layout.shape else _transposed(self)
    return COMPOSITES["conj"].call(swapped)  # type: ignore[no-any-return]


def _reversed(self: Tensor) -> Tensor:
    """Return a copy with the first axis in reverse order."""
    return OPS["flip"].public(self, 0) if self._layout.shape else self


def _contains(self: Tensor, element: Any) -> bool:
    """Return whether any element equals `element`, a number or a tensor that broadcasts."""
    if not isinstance(element, Tensor | int | float | np.generic):
        raise RuntimeError(
            "Tensor.__contains__ only supports Tensor or scalar, but you passed in a "
            f"{type(element)}."
        )
    return bool((self == element).any())


@folds
def polygamma(self: Tensor, n: int) -> Tensor:
    """Return the n-th derivative of digamma."""
    return OPS["polygamma"].public(n, self)  # type: ignore[no-any-return]


@folds
def unfold(self: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """Return a view of all windows of `size` elements along `dimension`; the elements of a window
    are along a new last axis.

    Raises  IndexError if dimension is out of range; RuntimeError if size is longer than the axis,
            or step is not positive

    Args:
        dimension: The axis along which windows are taken; negative numbers count from the end.
        size: The length of a window.
        step: The distance between the starts of two windows.

    Example:
        >>> torch.arange(5).unfold(0, 3, 2)
        tensor([[0, 1, 2],
                [2, 3, 4]])
    """
    return OPS["windows"].public(self, dimension, size, step)  # type: ignore[no-any-return]


def _repr_context(self: Tensor) -> tuple[str, str | None]:
    """Return the default dtype, which printing omits, and the tangent at the innermost level as
    text.
    """
    level = ForwardADLevel.current()
    tangent = None if level is None else tangent_of(self, level)
    return get_default_dtype().name, None if tangent is None else f"{tangent}"


def _delete_item(self: Tensor, index: Any) -> None:
    raise TypeError("Tensor does not support deleting items; join what is to stay with cat()")


def _iter(self: Tensor) -> Iterator[Tensor]:
    """Iterate over the rows: views with a common Node, which collects their gradients."""
    if not self._layout.shape:
        raise TypeError("iteration over a 0-d tensor")
    return iter(unbind(self))


def _real(self: Tensor) -> Tensor:
    """The real part of a complex tensor, as a view; a real tensor is returned unchanged."""
    return COMPOSITES["real"].call(self)  # type: ignore[no-any-return]


def _set_real(self: Tensor, value: Any) -> None:
    _write(_real(self), value)


def _set_imag(self: Tensor, value: Any) -> None:
    _write(_imag(self), value)


def _write(part: Tensor, value: Any) -> None:
    if isinstance(value, Tensor):
        copy_(part, value)
    else:
        fill_(part, value)


def _imag(self: Tensor) -> Tensor:
    """The imaginary part as a view; RuntimeError for a real tensor."""
    return COMPOSITES["imag"].call(self)  # type: ignore[no-any-return]


def as_subclass(self: Tensor, cls: type[Tensor]) -> Any:
    """Return this tensor as an instance of cls, with the same memory and position in the graph.

    Raises  TypeError if cls is not a subclass of Tensor; RuntimeError for a conjugate or negative
            view, unless cls is Tensor
    """
    if not (isinstance(cls, type) and issubclass(cls, Tensor)):
        raise TypeError(f"as_subclass(): cls must be a type of Tensor, got {short_repr(cls)}")
    with DisableTorchFunctionSubclass():
        seen = self.view(self._layout.shape)
    if isinstance(seen, LazyConjNeg) and cls in (Tensor, LazyConjNeg):
        return seen
    if isinstance(seen, LazyConjNeg):
        raise RuntimeError(
            f"as_subclass(): a {seen.adjective} view cannot be a {cls.__name__} that shares its "
            "memory; "
            f"call resolve_{seen.change.name}() first, which copies"
        )
    out: Any = object.__new__(Tensor if cls is LazyConjNeg else cls)
    out._array, out._layout, out._edge = seen._array, seen._layout, seen._edge
    out._extra, out._storage = seen._extra, seen._storage
    storage_of(self).add_view(out)
    return out


def module_load(self: Tensor, other: Tensor, assign: bool = False) -> Tensor:
    """Return the tensor that load_state_dict stores instead of this tensor: this tensor's memory
    with the values of `other`; or, if `assign` is true, `other` itself, detached.
    """
    return other.detach() if assign else copy_(self.detach(), other)


METHODS: dict[str, Any] = {
    "unfold": unfold,
    "polygamma": polygamma,
    "polygamma_": inplace_of("polygamma", polygamma),
    "__contains__": _contains,
    "__getitem__": subscript.subscript,
    "__setitem__": subscript.subscript_assign,
    "__iter__": _iter,
    "__delitem__": _delete_item,
    "_repr_context": _repr_context,
    "storage_offset": storage_offset,
    "detach_": detach_,
    "t_": view_inplace_of("t", views.t),
    "swapaxes_": view_inplace_of("swapaxes", OPS["transpose"].public),
    "swapdims_": view_inplace_of("swapdims", OPS["transpose"].public),
    "as_strided_": view_inplace_of("as_strided", as_strided.as_strided),
    "as_subclass": as_subclass,
    "module_load": module_load,
    "new_empty_strided": new_empty_strided,
    "real": property(_real, _set_real),
    "imag": property(_imag, _set_imag),
    "new_zeros": new_zeros,
    "new_ones": new_ones,
    "new_empty": new_empty,
    "new_full": new_full,
    "new_tensor": new_tensor,
    "data": property(_data, _set_data),
    "T": property(_transposed),
    "mT": property(_matrices_transposed),
    "H": property(_matrix_adjoint),
    "mH": property(_adjoint),
    "__reversed__": _reversed,
    "copy_": copy_,
    "fill_": fill_,
    "zero_": zero_,
    "where": where,
    "backward": backward,
    "detach": detach,
    "t": views.t,
    "reshape": views.reshape,
    "__pos__": COMPOSITES["positive"].call,
    **pickling.METHODS,
    **set_memory.METHODS,
    **typed_storage.METHODS,
    **as_numpy.METHODS,
    **by_element.METHODS,
    **questions.METHODS,
    **dlpack.METHODS,
    **shared_memory.METHODS,
}


def attach_methods() -> None:
    """Attach the methods to Tensor."""
    use_engine(engine_grad)
    for name, method in METHODS.items():
        if name.startswith("__") and not isinstance(method, property):
            # `__torch_function__` gets the method under this name.
            method.__name__ = method.__qualname__ = name
        setattr(TensorMethods, name, method)
