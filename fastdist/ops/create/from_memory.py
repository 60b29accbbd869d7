"""Tensors over existing memory (arrays, buffers, files), and tensors with given strides."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from ...core.caller_warning import warn_caller
from ...core.device import Device
from ...core.dtypes import DType, dtype_of
from ...core.errors import ShapeError
from ...core.folded_frames import private_cause
from ...core.memory_format import MemoryLayout
from ...core.sequences import all_of
from ...core.short_repr import short_repr
from ...dispatch.composite import checked
from ...system.file_memory import map_file
from ...tensor.axes import sizes_of
from ...tensor.constants import placed
from ...tensor.dlpack import from_dlpack
from ...tensor.methods import DeviceLike
from ...tensor.promotion import dtype_or_default
from ...tensor.tensor import Tensor, from_users_array
from ...tensor.typed_storage import TypedStorage, UntypedStorage
from .allocation import finish, laid_out
from .creation import from_numpy, tensor


@partial(checked, known_as="")
def asarray(
    obj: Any,
    *,
    dtype: DType | None = None,
    device: Any = None,
    copy: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return obj as a Tensor. A Tensor is returned unchanged. Memory is shared with an array, a
    storage, an object with DLPack or a buffer. Numbers and lists are copied. copy=True always
    copies, copy=False never copies.

    Dtype   the bytes of a buffer are interpreted in the default dtype unless dtype is given
    Raises  ValueError if copy=False is impossible; RuntimeError for a NumPy scalar and copy=False
    """
    if isinstance(obj, TypedStorage | UntypedStorage):
        obj, dtype = _elements_of(obj, dtype)
    found = _shared(obj, dtype, copy)
    if found is None:
        if copy is False:
            raise ValueError(
                f"can't alias arbitrary sequence into a tensor: {type(obj).__name__} has no memory "
                "to share; leave copy=False out"
            )
        made: Any = list(obj) if isinstance(obj, range) else obj
        return tensor(made, dtype=dtype, device=device, requires_grad=requires_grad)
    wanted = found._layout.dtype if dtype is None else dtype_of(dtype)
    where = found._layout.device if device is None else Device.parse(device)
    if copy is False and where is not found._layout.device:
        raise ValueError(f"can't alias tensor from device '{found._layout.device}' to '{where}'.")
    if copy is False and wanted is not found._layout.dtype:
        raise ValueError(
            f"can't alias tensor with dtype '{found._layout.dtype.name}' into dtype "
            f"'{wanted.name}'."
        )
    result = found.to(dtype=wanted, device=where, copy=bool(copy))
    if requires_grad and not result.requires_grad:
        result.requires_grad_()
    return result


def _elements_of(storage: TypedStorage | UntypedStorage, dtype: DType | None) -> Any:
    """Return an array over a storage's memory, and the dtype for the result.

    The bytes of an UntypedStorage are interpreted in the given dtype, or else the default dtype.
    """
    raw = storage.untyped().numpy()
    wanted = storage.dtype if isinstance(storage, TypedStorage) else dtype_or_default(dtype)
    whole = raw.nbytes // wanted.itemsize * wanted.itemsize
    return raw[:whole].view(wanted.numpy), dtype or wanted


def _shared(obj: Any, dtype: DType | None, copy: bool | None) -> Tensor | None:
    """Return a Tensor that shares obj's memory, or None if obj has no memory to share."""
    if isinstance(obj, Tensor):
        return obj
    if isinstance(obj, np.generic):
        if copy is False:
            raise RuntimeError(
                "can't alias NumPy scalars. Either remove copy=False or transform it in a ndarray."
            )
        return None
    if isinstance(obj, np.ndarray):
        return from_numpy(obj)
    if hasattr(obj, "__dlpack__") or hasattr(obj, "__cuda_array_interface__"):
        return from_dlpack(obj)
    try:
        memoryview(obj)
    except TypeError:
        return None
    return frombuffer(obj, dtype=dtype_or_default(dtype))


@checked
def frombuffer(
    buffer: Any, *, dtype: DType, count: int = -1, offset: int = 0, requires_grad: bool = False
) -> Tensor:
    """Return a vector over the memory of an object with Python's buffer protocol: count elements
    (all, by default), starting at byte `offset`.

    Raises  ValueError if the object has no buffer, if the buffer is empty or too short, or if its
            length is not a multiple of the element size
    """
    try:
        found = memoryview(buffer)
    except TypeError as error:
        raise ValueError("object does not implement Python buffer protocol.") from private_cause(
            error
        )
    if not found.c_contiguous:
        raise ShapeError("could not retrieve buffer from object: it has gaps; copy it")
    size = found.nbytes
    wanted = dtype_of(dtype)
    item = wanted.itemsize
    if not size or not count:
        raise ValueError(
            f"both buffer length ({short_repr(size)}) and count ({count}) must not be 0"
        )
    if not 0 <= offset < size:
        raise ValueError(
            f"offset ({offset} bytes) must be non-negative and no greater than buffer length "
            f"({short_repr(size)} bytes) minus 1"
        )
    if count < 0 and (size - offset) % item:
        raise ValueError(
            f"buffer length ({size - offset} bytes) after offset ({offset} bytes) must be a "
            f"multiple of element size ({item})"
        )
    if count > 0 and count * item > size - offset:
        raise ValueError(
            f"requested buffer length ({count} * {item} bytes) after offset ({offset} bytes) must "
            f"not be greater than actual buffer length ({short_repr(size)} bytes)"
        )
    array = np.frombuffer(buffer, wanted.numpy, count, offset)
    if not array.flags.writeable:
        warn_caller(
            "The given buffer is not writable, and PyTorch does not support non-writable tensors. "
            "This means that writing to this tensor will raise. You may want to copy the buffer to "
            "protect its data or make it writable before converting it to a tensor. This type of "
            "warning will be suppressed for the rest of this program.",
            once=True,
        )
    made = from_users_array(array)
    return made.requires_grad_() if requires_grad else made


@checked
def from_file(
    filename: str,
    shared: bool | None = None,
    size: int = 0,
    *,
    dtype: DType | None = None,
    layout: MemoryLayout | None = None,
    device: DeviceLike = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """Return a vector of `size` elements that are stored in a file. With shared=True, writes to the
    vector also change the file, and a file that is too short is extended. Otherwise, writes change
    only the vector.

    Raises  RuntimeError if the file cannot be opened, or if it is too short and not shared
    """
    wanted = dtype_or_default(dtype)
    array = map_file(filename, size * wanted.itemsize, shared=bool(shared)).view(wanted.numpy)
    return finish(array, device, requires_grad, layout, pin_memory)


@checked
def empty_strided(
    size: Any,
    stride: Any,
    *,
    dtype: DType | None = None,
    layout: MemoryLayout | None = None,
    device: DeviceLike = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """Return an uninitialized tensor with the given strides. All elements along an axis of stride 0
    have the same memory.

    Raises  RuntimeError for negative strides, or if there are not as many strides as sizes
    """
    shape, steps = sizes_of((size,)), tuple(all_of(stride))
    if len(shape) != len(steps):
        raise ShapeError(
            f"dimensionality of sizes ({len(shape)}) must match dimensionality of strides "
            f"({len(steps)})"
        )
    if any(step < 0 for step in steps):
        raise ShapeError(
            f"Storage size calculation overflowed with sizes={short_repr(list(shape))} and "
            f"strides={short_repr(list(steps))}: no stride may be negative"
        )
    last = sum((n - 1) * step for n, step in zip(shape, steps, strict=True))
    wanted = dtype_or_default(dtype)
    room = np.empty(0 if 0 in shape else last + 1, wanted.numpy)
    flat = finish(room, device, False, layout, pin_memory)
    found = flat.as_strided(shape, steps).detach()
    return found.requires_grad_() if requires_grad else found


@checked
def empty_permuted(
    size: Sequence[int],
    physical_layout: Any,
    *,
    dtype: DType | None = None,
    layout: MemoryLayout | None = None,
    device: DeviceLike = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """Return an uninitialized tensor without gaps in memory.

    physical_layout lists the axes in the order that they have in memory, slowest first.

    Raises  RuntimeError if physical_layout is not a permutation of the axes
    """
    shape, order = sizes_of((size,)), tuple(physical_layout)
    if len(shape) != len(order):
        raise ShapeError(
            "Number of dimensions in size does not match the length of the physical_layout; i.e. "
            f"len(size) = {len(shape)} is not equal to len(physical_layout) = {len(order)}"
        )
    for i, axis in enumerate(order):
        if not 0 <= axis < len(shape):
            raise ShapeError(
                f"Dimension out of range (expected to be between 0 and {len(shape) - 1}, but got "
                f"{axis} at index {i}); negative ones are not taken here"
            )
    if len(set(order)) < len(order):
        raise ShapeError(f"Duplicate dim not allowed: {list(order)}")
    wanted = dtype_or_default(dtype)
    array = laid_out(np.empty(shape, wanted.numpy), order)
    return finish(array, device, requires_grad, layout, pin_memory)


@checked
def scalar_tensor(
    s: float,
    *,
    dtype: DType | None = None,
    layout: MemoryLayout | None = None,
    device: DeviceLike = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """Return a 0-d tensor with the number s, in the default dtype unless dtype is given."""
    wanted = dtype_or_default(dtype)
    value = s.item() if isinstance(s, Tensor) else s
    if np.ndim(value):
        raise TypeError(f"scalar_tensor(): argument 's' must be Number, not {type(s).__name__}")
    array = placed(value, wanted)
    return finish(array, device, requires_grad, layout, pin_memory)
