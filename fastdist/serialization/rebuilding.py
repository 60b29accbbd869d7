"""What a file calls to make tensors of its records; all that it says is held against the records.

The parameters are those that PyTorch writes.
"""

from __future__ import annotations

from typing import Any

from ..core.device import CPU
from ..core.dtypes import DType
from ..core.memory_format import MemoryLayout, sparse_coo, strided
from ..ops.set_memory import require_inside
from ..tensor.layout import Layout
from ..tensor.memory import bound, seen_at
from ..tensor.parameter import Parameter
from ..tensor.pickling import rebuild_sparse
from ..tensor.tensor import Tensor, wrap
from ..tensor.typed_storage import TypedStorage, UntypedStorage


def rebuild_tensor(storage: Any, storage_offset: Any, size: Any, stride: Any) -> Tensor:
    """Return a tensor over a part of a storage.

    Raises  TypeError, RuntimeError for what is no storage, or lies outside of it
    """
    return _over(storage, storage_offset, size, stride, None)


def rebuild_tensor_v2(
    storage: Any,
    storage_offset: Any,
    size: Any,
    stride: Any,
    requires_grad: Any,
    backward_hooks: Any,
    metadata: Any = None,
) -> Tensor:
    """Return a tensor over a part of a storage. Raises as rebuild_tensor."""
    tensor = _over(storage, storage_offset, size, stride, None)
    return tensor.requires_grad_() if requires_grad else tensor


def rebuild_tensor_v3(
    storage: Any,
    storage_offset: Any,
    size: Any,
    stride: Any,
    requires_grad: Any,
    backward_hooks: Any,
    dtype: Any,
    metadata: Any = None,
) -> Tensor:
    """Return a tensor of a dtype over a part of a storage of bytes. Raises as rebuild_tensor."""
    tensor = _over(storage, storage_offset, size, stride, dtype)
    return tensor.requires_grad_() if requires_grad else tensor


def get_layout(name: Any) -> MemoryLayout:
    """Return PyTorch's word for how elements lie.

    Raises  NotImplementedError for layouts that fastdist does not have
    """
    for layout in (strided, sparse_coo):
        if name == f"torch.{layout.name}":
            return layout
    raise NotImplementedError(
        f"this file holds a tensor of the layout {name!r}, which fastdist does not have; save "
        "to_sparse_coo() or to_dense() of it, with PyTorch"
    )


def rebuild_sparse_tensor(layout: Any, data: Any) -> Tensor:
    """Return a sparse tensor of (coordinates, values, size) and, but in old files, whether it is
    coalesced.

    Raises  ValueError, TypeError for parts that do not fit
    """
    if layout is not sparse_coo or type(data) is not tuple or len(data) not in (3, 4):
        raise TypeError(f"a sparse tensor is made of its parts, got {layout!r} and {data!r}")
    indices, values, size, is_coalesced = (*data, False)[:4]
    for part in (indices, values):
        _require_tensor(part)
    if any(type(length) is not int for length in size) or len(size) > _MOST_AXES:
        raise TypeError(f"a tensor has at most {_MOST_AXES} axes and ints for its sizes: {size!r}")
    return rebuild_sparse(indices, values.detach(), size, is_coalesced is True, False)


def _over(storage: Any, offset: Any, size: Any, stride: Any, dtype: DType | None) -> Tensor:
    if isinstance(storage, TypedStorage):
        dtype = dtype or storage.dtype
        storage = storage.untyped()
    if not isinstance(storage, UntypedStorage) or not isinstance(dtype, DType):
        raise TypeError(f"a tensor is made of a storage of a known dtype, not of {storage!r}")
    numbers = (offset, *size, *stride)
    # bool is an int; a NumPy number would be a call that nobody has made.
    if any(type(number) is not int for number in numbers) or len(size) > _MOST_AXES:
        raise TypeError(
            f"a tensor has at most {_MOST_AXES} axes and ints for its sizes, got "
            f"{size!r}, strides {stride!r}, offset {offset!r}"
        )
    shape, strides = tuple(size), tuple(stride)
    flat = storage.raw
    require_inside(shape, strides, offset, dtype.itemsize, flat.nbytes)
    array = seen_at(flat, dtype.numpy, storage.device, offset, shape, strides)
    tensor = wrap(array, Layout.of(dtype, storage.device, shape, strides))
    # A NumPy array knows what it is a part of; those of devices may not.
    return tensor if storage.device is CPU else bound(tensor, flat)


_MOST_AXES = 64  # NumPy's bound


def rebuild_parameter(data: Any, requires_grad: Any, backward_hooks: Any) -> Parameter:
    """Return a Parameter of a tensor."""
    _require_tensor(data)
    return Parameter(data, requires_grad=bool(requires_grad))


def rebuild_parameter_with_state(
    data: Any, requires_grad: Any, backward_hooks: Any, state: Any
) -> Parameter:
    """Return a Parameter with attributes of its own."""
    return _with_state(rebuild_parameter(data, requires_grad, backward_hooks), state)  # type: ignore[no-any-return]


def rebuild_from_type_v2(func: Any, new_type: Any, args: Any, state: Any) -> Any:
    """Return what func makes of args as a new_type, a subclass of Tensor, with its attributes."""
    made = func(*args)
    _require_tensor(made)
    if type(made) is not new_type:
        if not (isinstance(new_type, type) and issubclass(new_type, Tensor)):
            raise TypeError(f"a tensor cannot be rebuilt as {new_type!r}, which is no kind of it")
        twin = object.__new__(new_type)
        twin.array, twin.facts, twin._storage = made.array, made.facts, made._storage
        twin.edge = twin.extra = None
        made = twin.requires_grad_() if made.requires_grad else twin
    return _with_state(made, state)


def _with_state(made: Any, state: Any) -> Any:
    attributes = state[0] if isinstance(state, tuple) else state
    if attributes:
        if not isinstance(attributes, dict):
            raise TypeError(f"the attributes of a tensor are a dict, not {attributes!r}")
        for name, value in attributes.items():
            object.__setattr__(made, name, value)
    return made


def _require_tensor(value: Any) -> None:
    if not isinstance(value, Tensor):
        raise TypeError(f"a tensor is made of a tensor, not of {type(value).__name__}")
