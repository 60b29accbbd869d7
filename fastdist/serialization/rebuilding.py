"""The functions that a file calls to make tensors from its storages; they check all arguments.

These functions have the parameters for which PyTorch writes arguments.
"""

from __future__ import annotations

import copyreg
from pickle import UnpicklingError
from types import (
    BuiltinFunctionType,
    ClassMethodDescriptorType,
    FunctionType,
    MemberDescriptorType,
    MethodDescriptorType,
    WrapperDescriptorType,
)
from typing import Any, Final

from ..core.device import CPU
from ..core.dtypes import DType, bool_
from ..core.memory_format import MemoryLayout, sparse_coo, strided
from ..core.moved_modules import own_name
from ..dispatch.op import OPS
from ..graph.lazy_conj_neg import LazyConjNeg, lazy_view, resolved
from ..ops.shape.set_memory import require_inside
from ..tensor.layout import Layout, Size
from ..tensor.memory import bound, view_at
from ..tensor.parameter import Parameter
from ..tensor.pickling import rebuild_meta, rebuild_sparse
from ..tensor.tensor import Tensor, wrap
from ..tensor.typed_storage import TypedStorage, UntypedStorage
from .budget import brief


def rebuild_tensor(storage: Any, storage_offset: Any, size: Any, stride: Any) -> Tensor:
    """Return a tensor that uses a part of a storage.

    Raises  TypeError for a value that is not a storage; RuntimeError for a range outside of it
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
    """Return a tensor that uses a part of a storage. Raises the errors of rebuild_tensor.

    Raises  UnpicklingError for metadata other than PyTorch's conjugate and negative bits
    """
    tensor = _with_bits(_over(storage, storage_offset, size, stride, None), metadata)
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
    """Return a tensor of `dtype` that uses a part of an untyped storage.

    Raises  the errors of rebuild_tensor_v2
    """
    tensor = _with_bits(_over(storage, storage_offset, size, stride, dtype), metadata)
    return tensor.requires_grad_() if requires_grad else tensor


def _with_bits(tensor: Tensor, metadata: Any) -> Tensor:
    """Return `tensor`, or the conjugate or negative view of it that `metadata` names.

    The view shares the memory of the file's storage, without a copy.
    """
    if metadata is None:
        return tensor
    if type(metadata) is not dict or not all(
        type(name) is str and name in _BITS and type(bit) is bool for name, bit in metadata.items()
    ):
        raise UnpicklingError(
            "the metadata of a tensor are None or a dict of 'conj' and 'neg' with bools, got "
            f"{brief(metadata)}"
        )
    bits = [name for name in _BITS if metadata.get(name)]
    if not bits:
        return tensor
    dtype = tensor.dtype
    if (
        len(bits) > 1
        or dtype.is_bare
        or dtype is bool_
        or not (dtype.is_complex or bits[0] == "neg")
    ):
        raise UnpicklingError(f"a tensor of {dtype} cannot be a view with {' and '.join(bits)}")
    return lazy_view(tensor, OPS[bits[0]])


_BITS: Final = ("conj", "neg")


def bytes_of_copy(value: Any) -> int:
    """Return the number of bytes that are copied to make a Parameter or a tensor of a subclass from
    `value`: all bytes of a conjugate or negative view, otherwise 0.
    """
    return value.nbytes if type(value) is LazyConjNeg else 0


def get_layout(name: Any) -> MemoryLayout:
    """Return the memory layout with a name such as torch.strided.

    Raises  NotImplementedError for layouts that fastdist does not have
    """
    for layout in (strided, sparse_coo):
        if name == f"torch.{layout.name}":
            return layout
    raise NotImplementedError(
        f"this file holds a tensor of the layout {brief(name)}, which fastdist does not have; save "
        "to_sparse_coo() or to_dense() of it, with PyTorch"
    )


def rebuild_sparse_tensor(layout: Any, data: Any) -> Tensor:
    """Return a sparse tensor from `data`: (coordinates, values, size). In newer files a fourth item
    says whether the tensor is coalesced.

    Raises  ValueError or TypeError for parts that do not fit together
    """
    if layout is not sparse_coo or type(data) is not tuple or len(data) not in (3, 4):
        raise TypeError(
            f"a sparse tensor is made of its parts, got {brief(layout)} and {brief(data)}"
        )
    indices, values, size, is_coalesced = (*data, False)[:4]
    for part in (indices, values):
        _require_tensor(part)
    if type(size) not in (tuple, list, Size) or len(size) > _MOST_AXES:
        raise TypeError(f"a tensor has at most {_MOST_AXES} axes, got {brief(size)}")
    if not all(map(_is_size, size)):
        raise TypeError(f"a tensor has ints for its sizes, got {brief(size)}")
    indices, values = resolved(indices), resolved(values.detach())
    return rebuild_sparse(indices, values, size, is_coalesced is True, False)


def rebuild_meta_tensor_no_storage(
    dtype: Any, size: Any, stride: Any, requires_grad: Any
) -> Tensor:
    """Return a tensor on the meta device from its shape, strides and dtype."""
    numbers = (*size, *stride)
    if not isinstance(dtype, DType) or len(size) != len(stride) or not all(map(_is_size, numbers)):
        raise TypeError(
            f"a meta tensor has a dtype, and ints for its sizes and strides, got {brief(dtype)}, "
            f"{brief(size)}, {brief(stride)}"
        )
    if len(size) > _MOST_AXES or min(numbers, default=0) < 0:
        raise TypeError(f"a meta tensor of sizes {brief(size)} and strides {brief(stride)}")
    return rebuild_meta(Tensor, dtype, tuple(size), tuple(stride), requires_grad is True)


def _over(storage: Any, offset: Any, size: Any, stride: Any, dtype: DType | None) -> Tensor:
    if isinstance(storage, TypedStorage):
        dtype = dtype or storage.dtype
        storage = storage.untyped()
    if not isinstance(storage, UntypedStorage) or not isinstance(dtype, DType):
        raise TypeError(f"a tensor is made of a storage of a known dtype, not of {brief(storage)}")
    numbers = (offset, *size, *stride)
    # bool is a subclass of int, so types are compared exactly. NumPy numbers are not allowed
    # either.
    if not all(map(_is_size, numbers)) or len(size) > _MOST_AXES:
        raise TypeError(
            f"a tensor has at most {_MOST_AXES} axes and ints for its sizes, got "
            f"{brief(size)}, strides {brief(stride)}, offset {brief(offset)}"
        )
    shape, strides = tuple(size), tuple(stride)
    flat = storage.raw
    require_inside(shape, strides, offset, dtype.itemsize, flat.nbytes)
    array = view_at(flat, dtype.numpy, storage.device, offset, shape, strides)
    tensor = wrap(array, Layout.of(dtype, storage.device, shape, strides))
    # A NumPy array keeps its memory alive; the arrays of other devices may not.
    return tensor if storage.device is CPU else bound(tensor, flat)


def _is_size(number: Any) -> bool:
    # Larger ints are refused: computing products of them would take quadratic time.
    return type(number) is int and -_LARGEST <= number <= _LARGEST


_LARGEST: Final = (1 << 63) - 1
_MOST_AXES: Final = 64  # NumPy's limit


def rebuild_parameter(data: Any, requires_grad: Any, backward_hooks: Any) -> Parameter:
    """Return a Parameter that shares a tensor's data."""
    _require_tensor(data)
    return Parameter(data, requires_grad=bool(requires_grad))


def rebuild_parameter_with_state(
    data: Any, requires_grad: Any, backward_hooks: Any, state: Any
) -> Parameter:
    """Return a Parameter that shares a tensor's data, with the attributes in `state`."""
    made = rebuild_parameter(data, requires_grad, backward_hooks)
    give_attributes(made, state)
    return made


def rebuild_from_type_v2(func: Any, new_type: Any, args: Any, state: Any) -> Any:
    """Return `func(*args)` as an instance of `new_type`, with the attributes in `state`."""
    made = func(*args)
    _require_tensor(made)
    if type(made) is not new_type and not (new_type is Tensor and type(made) is LazyConjNeg):
        made = resolved(made)
        if not (isinstance(new_type, type) and issubclass(new_type, Tensor)):
            raise TypeError(
                f"a tensor cannot be rebuilt as {brief(new_type)}, which is not a class of tensors"
            )
        twin = object.__new__(new_type)
        twin._array, twin._layout, twin._storage = made._array, made._layout, made._storage
        twin._edge = twin._extra = None
        made = twin.requires_grad_() if made.requires_grad else twin
    give_attributes(made, state)
    return made


# Note [State of a file]
# Compiled loops trust the slots of a Tensor: they read an address from the object in `_array`. So
# attributes from a file are stored only in the __dict__, and never use a name that fastdist or
# Python defines, such as `_array`, `__class__` or the name of a method. If the user added a class
# with add_safe_globals, a file may also override plain default values of the class, and set slots
# that the class declares.


def size_of_state(state: Any) -> int:
    """Return the number of attributes in `state`: a dict, a tuple of dicts, or anything else."""
    parts = state if type(state) is tuple else (state,)
    return sum(len(part) for part in parts if isinstance(part, dict))


def give_state(value: Any, state: Any) -> None:
    """Restore the state of `value` from a file, as pickle does. The user has added the class of
    `value` with add_safe_globals.

    Raises  TypeError for attributes that a file may not set; errors of the class's __setstate__
    """
    set_state = getattr(type(value), "__setstate__", None)
    if set_state is not None:
        set_state(value, state)
        return
    give_attributes(value, state)


def give_attributes(value: Any, state: Any) -> None:
    """Store attributes from a file in the __dict__ of `value`: see Note [State of a file].

    Raises  TypeError for attributes that a file may not set
    """
    kind = type(value)
    given, slots = state if type(state) is tuple and len(state) == 2 else (state, None)
    for part in (given, slots):
        if part is not None and not isinstance(part, dict):
            raise TypeError(f"attributes of {kind.__name__} are a dict, not {brief(part)}")
    own_slots = () if isinstance(value, Tensor) else _slots_of(kind)
    for name in slots or ():
        if name not in own_slots:
            raise TypeError(
                f"a file may not set {brief(name)} of a {kind.__name__}, which is not a slot that "
                "a class of yours declares"
            )
    for name in given or ():
        if type(name) is not str or _is_taken(kind, name):
            raise TypeError(
                f"a file may not set {brief(name)} of a {kind.__name__}: the name is the class's "
                "own; save it under another name"
            )
    if given:
        value.__dict__.update(given)
    for name, one in (slots or {}).items():
        object.__setattr__(value, name, one)


def hidden_names(value: Any) -> list[str]:
    """Return the names of attributes of `value` that load() would refuse to set."""
    names = getattr(value, "__dict__", None) or ()
    return [name for name in names if type(name) is not str or _is_taken(type(value), name)]


def _slots_of(kind: type) -> list[str]:
    """Return the slots that user-defined classes declare."""
    names: list[str] = copyreg._slotnames(kind)  # type: ignore[attr-defined]
    return [name for name in names if not _is_taken(kind, name, slots_too=False)]


def _is_taken(kind: type, name: str, *, slots_too: bool = True) -> bool:
    """Return whether a class defines a name, so that a file may not set it."""
    if name in _INTERNAL or (name[:2] == "__" and name[-2:] == "__"):
        return True
    for base in kind.__mro__:
        if name not in vars(base):
            continue
        is_ours = own_name(base)[0].partition(".")[0] == _ROOT
        if (is_ours and issubclass(kind, Tensor)) or issubclass(base, dict):
            return True
        found = vars(base)[name]
        if isinstance(found, MemberDescriptorType):
            return slots_too or is_ours
        # A plain value is a default that may be overridden; a cached_property stores its result in
        # the __dict__.
        return isinstance(found, _METHODS) or hasattr(type(found), "__set__")
    return False


# fastdist stores this attribute in the __dict__ of a Tensor: see tensor/constants.py.
_INTERNAL: Final = frozenset({"_made_of"})
_METHODS: Final = (
    FunctionType, BuiltinFunctionType, MethodDescriptorType, WrapperDescriptorType,
    ClassMethodDescriptorType, classmethod, staticmethod,
)  # fmt: skip
_ROOT: Final = __package__.partition(".")[0]


def _require_tensor(value: Any) -> None:
    if not isinstance(value, Tensor):
        raise TypeError(f"a tensor is made of a tensor, not of {type(value).__name__}")
