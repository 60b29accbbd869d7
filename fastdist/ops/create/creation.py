"""Creation of tensors: from data, or filled with one number."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core import dtypes
from ...core.caller_warning import warn_caller
from ...core.device import CPU, Device
from ...core.dtypes import DType, dtype_of, uint64
from ...core.folded_frames import folds
from ...core.memory_format import MemoryFormat, MemoryLayout, strided
from ...devices.cpu import copy_of
from ...dispatch.composite import checked
from ...interpreters.torch_function import overridable_by_modes
from ...tensor.axes import sizes_of
from ...tensor.constants import fits, held
from ...tensor.dlpack import from_dlpack
from ...tensor.methods import DeviceLike, Number
from ...tensor.promotion import dtype_of_number, dtype_or_default
from ...tensor.tensor import Tensor, from_users_array
from ..listed_numbers import array_of_lists, dtype_among
from .allocation import as_number, filled, fills_out, finish, like, no_entries, order_like, rounded
from .quick import ones_of, quick_full, quick_full_like, quick_like, quick_sizes


@overridable_by_modes
def tensor(
    data: Any, *, dtype: DType | None = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Return a new leaf with a copy of data: a number, nested lists of numbers, a NumPy array or a
    Tensor.

    Dtype   Python floats -> the default dtype, integers -> int64, bools -> bool; arrays keep
            their dtype; lists of typed numbers -> the dtype to which the numbers promote
    Raises  ValueError for lists of unequal length, TypeError for a value that is not a number

    Args:
        data: The values; tensors and arrays are copied.
        dtype: The dtype of the result; None means the dtype of the values, as above.
        device: The device of the result; if None, the device of data if data is a tensor, otherwise
            the default device.
        requires_grad: Whether autograd records what is computed from the result.

    Returns:
        A leaf of the graph. `as_tensor` avoids the copy where it can share memory.

    Example:
        >>> torch.tensor([[1.0, 2.0], [3.0, 4.0]])
        tensor([[1., 2.],
                [3., 4.]])
        >>> torch.tensor([1, 2], dtype=torch.float64, requires_grad=True)
        tensor([1., 2.], dtype=fastdist.float64, requires_grad=True)
    """
    if isinstance(data, Tensor):
        warn_caller(
            "To copy construct from a tensor, it is recommended to use sourceTensor.detach()"
            ".clone() or sourceTensor.detach().clone().requires_grad_(True), rather than "
            "torch.tensor(sourceTensor)."
        )
        if data._layout.is_sparse:
            made: Any = data.detach().to(device=device or data._layout.device, dtype=dtype).clone()
            return made.requires_grad_() if requires_grad else made  # type: ignore[no-any-return]
        if data.is_meta and (device is None or Device.parse(device).type == "meta"):
            copied = data.detach().to(dtype=data._layout.dtype if dtype is None else dtype).clone()
            return copied.requires_grad_() if requires_grad else copied
        array = copy_of(data.to_numpy())
        device = data._layout.device if device is None else device
    elif isinstance(data, np.ndarray | np.generic) or hasattr(data, "__array__"):
        array = copy_of(np.asarray(data))  # this includes tensors of other libraries
    else:
        array, named = array_of_lists(data, dtype)
        if dtype is None and named:
            dtype = dtype_among(data)
        elif dtype is None and array.dtype.kind in "fc":
            dtype = dtype_of_number(array.dtype.type().item())
    if array.dtype.byteorder == ">":
        array = array.astype(array.dtype.newbyteorder("="))
    wanted = dtypes.from_numpy(array.dtype) if dtype is None else dtype_of(dtype)
    if not isinstance(data, Tensor) and not hasattr(data, "__array__"):
        _require_held(array, wanted)
    return finish(rounded(array, wanted), device, requires_grad)


def _require_held(array: np.ndarray[Any, Any], wanted: DType) -> None:
    """Raise RuntimeError if array has numbers outside the range of an integer dtype.

    Numbers too large for a floating dtype are accepted, and become infinite.
    """
    if wanted.numpy.kind not in "iu" or array.dtype.kind == "b" or array.dtype == wanted.numpy:
        return
    if wanted is uint64 and array.dtype.kind == "i" and array.min(initial=0) < 0:
        raise OverflowError(f"can't convert negative int to unsigned: got {array.min()}")
    if not fits(array, wanted.numpy):
        low, high = array.min(), array.max()
        raise RuntimeError(
            f"value cannot be converted to type {wanted.name} without overflow: the given "
            f"numbers are from {low} to {high}"
        )


@functools.partial(checked, known_as="")
def as_tensor(data: Any, dtype: DType | None = None, device: Any = None) -> Tensor:
    """Return data as a Tensor. Memory is shared with a Tensor, a CPU array or a GPU array
    (`__cuda_array_interface__`) that has the right dtype and device.

    Raises  ValueError if lists have unequal lengths; TypeError if a value is not a number

    Args:
        data: A tensor, an array, a number, or nested lists of numbers.
        dtype: The dtype of the result; None means the dtype of the values, as for `tensor`.
        device: The device of the result; if None, the device of data if data is a tensor, otherwise
            the default device.

    Returns:
        data itself if data is a tensor of the right dtype and device; otherwise a new tensor.

    Example:
        >>> x = torch.ones(2)
        >>> torch.as_tensor(x) is x
        True
    """
    if not isinstance(data, Tensor) and hasattr(data, "__cuda_array_interface__"):
        data = from_dlpack(data)
    if isinstance(data, Tensor):
        return data.to(dtype=dtype, device=device)
    right = isinstance(data, np.ndarray) and (dtype is None or data.dtype == dtype_of(dtype).numpy)
    if right and (device is None or Device.parse(device) is CPU):
        return from_numpy(data)
    return tensor(data, dtype=dtype, device=device)


@folds
def from_numpy(array: np.ndarray[Any, Any]) -> Tensor:
    """Return a Tensor that shares memory with a NumPy array.

    Raises  TypeError for an object that is not an array, or a dtype that fastdist does not have

    Args:
        array: The array, of a dtype that tensors have.

    Returns:
        A tensor. Writes into the tensor change the array, too.

    Example:
        >>> import numpy as np
        >>> torch.from_numpy(np.array([1.0, 2.0]))
        tensor([1., 2.], dtype=fastdist.float64)
    """
    if not isinstance(array, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(array).__name__})")
    if not array.flags.writeable:
        warn_caller(
            "The given NumPy array is not writable, and PyTorch does not support non-writable "
            "tensors. This means that writing to this tensor will raise. You may want to copy the "
            "array to protect its data or make it writable before converting it to a tensor. This "
            "type of warning will be suppressed for the rest of this program.",
            once=True,
        )
    return from_users_array(array)


@quick_full
@checked
@fills_out
def full(
    size: tuple[int, ...],
    fill_value: Tensor | Number,
    *,
    dtype: DType | None = None,
    layout: MemoryLayout | None = None,
    device: DeviceLike = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """Return a tensor of this size, filled with fill_value.

    Raises  TypeError if size is not a tuple of integers, or fill_value is not a number;
            RuntimeError if a length is negative

    Args:
        size: The lengths of the axes, as a tuple.
        fill_value: The number; without dtype, an int gives int64, a bool gives bool, and a float
            the default dtype.
        dtype: The dtype of the result; if None, int64 for an integer, bool for a bool, and
            otherwise the default dtype.
        layout: The layout of the result; `strided` if None.
        device: The device of the result; the default device if None.
        pin_memory: Whether to take page-locked memory, from which copies to a GPU are faster.
        requires_grad: Whether autograd records what is computed from the result.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.full((2, 2), 7)
        tensor([[7, 7],
                [7, 7]])
    """
    value = as_number(fill_value)  # a NumPy number counts as a Python number
    wanted = dtype_of_number(value) if dtype is None else dtype_of(dtype)
    number = held(value, wanted)
    return filled(number, sizes_of((size,)), wanted, device, requires_grad, layout, pin_memory)


@quick_sizes(np.zeros)
@checked
@fills_out
def zeros(
    *size: int | Sequence[int],
    dtype: DType | None = None,
    layout: MemoryLayout | None = None,
    device: DeviceLike = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """Return a tensor filled with zeros.

    Raises  RuntimeError if a length is negative; TypeError if a length is not an integer

    Args:
        *size: The lengths of the axes, as numbers or as one tuple.
        dtype: The dtype of the result; the default dtype if None.
        layout: The layout of the result; `strided` if None.
        device: The device of the result; the default device if None.
        pin_memory: Whether to take page-locked memory, from which copies to a GPU are faster.
        requires_grad: Whether autograd records what is computed from the result.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.zeros(2, 3)
        tensor([[0., 0., 0.],
                [0., 0., 0.]])
        >>> torch.zeros((2,), dtype=torch.int64)
        tensor([0, 0])
    """
    wanted = dtype_or_default(dtype)
    return filled(0, sizes_of(size), wanted, device, requires_grad, layout, pin_memory)


@quick_sizes(ones_of)
@checked
@fills_out
def ones(
    *size: int | Sequence[int],
    dtype: DType | None = None,
    layout: MemoryLayout | None = None,
    device: DeviceLike = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """Return a tensor filled with ones.

    Raises  RuntimeError if a length is negative; TypeError if a length is not an integer

    Args:
        *size: The lengths of the axes, as numbers or as one tuple.
        dtype: The dtype of the result; the default dtype if None.
        layout: The layout of the result; `strided` if None.
        device: The device of the result; the default device if None.
        pin_memory: Whether to take page-locked memory, from which copies to a GPU are faster.
        requires_grad: Whether autograd records what is computed from the result.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.ones(2, 3)
        tensor([[1., 1., 1.],
                [1., 1., 1.]])
    """
    wanted = dtype_or_default(dtype)
    return filled(1, sizes_of(size), wanted, device, requires_grad, layout, pin_memory)


@quick_sizes(np.empty)
@checked
@fills_out
def empty(
    *size: int | Sequence[int],
    dtype: DType | None = None,
    layout: MemoryLayout | None = None,
    device: DeviceLike = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    memory_format: MemoryFormat | None = None,
) -> Tensor:
    """Return a tensor with uninitialized elements.

    Raises  RuntimeError if a length is negative; TypeError if a length is not an integer

    Args:
        *size: The lengths of the axes, as numbers or as one tuple.
        dtype: The dtype of the result; the default dtype if None.
        layout: The layout of the result; `strided` if None.
        device: The device of the result; the default device if None.
        pin_memory: Whether to take page-locked memory, from which copies to a GPU are faster.
        requires_grad: Whether autograd records what is computed from the result.
        memory_format: The order of the elements in memory; row-major if None.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.empty(2, 3).shape
        fastdist.Size([2, 3])
    """
    wanted = dtype_or_default(dtype)
    shape = sizes_of(size)
    order = None if memory_format is None else memory_format.order(len(shape))
    return filled(None, shape, wanted, device, requires_grad, layout, pin_memory, order)


@quick_like(np.zeros)
@checked
def zeros_like(
    input: Tensor,
    *,
    dtype: DType | None = None,
    layout: MemoryLayout | None = None,
    device: DeviceLike = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    memory_format: MemoryFormat | None = None,
) -> Tensor:
    """Return a tensor of zeros with the shape, strides, dtype and device of input.

    Raises  TypeError if input is not a tensor

    Args:
        input: The tensor whose shape, dtype and device are taken; its elements are not read.
        dtype: The dtype of the result; None means the dtype of input.
        layout: The layout of the result; `strided` if None.
        device: The device of the result; None means the device of input.
        pin_memory: Whether to take page-locked memory, from which copies to a GPU are faster.
        requires_grad: Whether autograd records what is computed from the result.
        memory_format: The order of the elements in memory; None means input's order.

    Example:
        >>> torch.zeros_like(torch.ones(2, dtype=torch.float64))
        tensor([0., 0.], dtype=fastdist.float64)
    """
    if input._layout.is_sparse and layout is not strided:
        return no_entries(input, *like(input, dtype, device), requires_grad)
    wanted, where = like(input, dtype, device)
    shape, order = input._layout.shape, order_like(input, memory_format)
    return filled(0, shape, wanted, where, requires_grad, layout, pin_memory, order)


@quick_like(ones_of)
@checked
def ones_like(
    input: Tensor,
    *,
    dtype: DType | None = None,
    layout: MemoryLayout | None = None,
    device: DeviceLike = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    memory_format: MemoryFormat | None = None,
) -> Tensor:
    """Return a tensor of ones with the shape, strides, dtype and device of input.

    Raises  TypeError if input is not a tensor

    Args:
        input: The tensor whose shape, dtype and device are taken; its elements are not read.
        dtype: The dtype of the result; None means the dtype of input.
        layout: The layout of the result; `strided` if None.
        device: The device of the result; None means the device of input.
        pin_memory: Whether to take page-locked memory, from which copies to a GPU are faster.
        requires_grad: Whether autograd records what is computed from the result.
        memory_format: The order of the elements in memory; None means input's order.

    Example:
        >>> torch.ones_like(torch.zeros(2, dtype=torch.int64))
        tensor([1, 1])
    """
    wanted, where = like(input, dtype, device, "ones_like")
    shape, order = input._layout.shape, order_like(input, memory_format)
    return filled(1, shape, wanted, where, requires_grad, layout, pin_memory, order)


@quick_like(np.empty)
@checked
def empty_like(
    input: Tensor,
    *,
    dtype: DType | None = None,
    layout: MemoryLayout | None = None,
    device: DeviceLike = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    memory_format: MemoryFormat | None = None,
) -> Tensor:
    """Return a tensor with uninitialized elements and the shape, strides, dtype and device of
    input.

    Raises  TypeError if input is not a tensor

    Args:
        input: The tensor whose shape, dtype and device are taken; its elements are not read.
        dtype: The dtype of the result; None means the dtype of input.
        layout: The layout of the result; `strided` if None.
        device: The device of the result; None means the device of input.
        pin_memory: Whether to take page-locked memory, from which copies to a GPU are faster.
        requires_grad: Whether autograd records what is computed from the result.
        memory_format: The order of the elements in memory; None means input's order.

    Example:
        >>> torch.empty_like(torch.ones(2, 3)).shape
        fastdist.Size([2, 3])
    """
    if input._layout.is_sparse and layout is not strided:
        return no_entries(input, *like(input, dtype, device), requires_grad)
    wanted, where = like(input, dtype, device)
    shape, order = input._layout.shape, order_like(input, memory_format)
    return filled(None, shape, wanted, where, requires_grad, layout, pin_memory, order)


@quick_full_like
@checked
def full_like(
    input: Tensor,
    fill_value: Tensor | Number,
    *,
    dtype: DType | None = None,
    layout: MemoryLayout | None = None,
    device: DeviceLike = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    memory_format: MemoryFormat | None = None,
) -> Tensor:
    """Return a tensor filled with fill_value, with the shape, strides, dtype and device of input.

    Raises  TypeError if fill_value is not a number

    Args:
        input: The tensor whose shape, dtype and device are taken; its elements are not read.
        fill_value: The number; for an integer dtype, a fraction is cut off: 2.7 becomes 2.
        dtype: The dtype of the result; None means the dtype of input.
        layout: The layout of the result; `strided` if None.
        device: The device of the result; None means the device of input.
        pin_memory: Whether to take page-locked memory, from which copies to a GPU are faster.
        requires_grad: Whether autograd records what is computed from the result.
        memory_format: The order of the elements in memory; None means input's order.

    Example:
        >>> torch.full_like(torch.zeros(2), 7)
        tensor([7., 7.])
    """
    wanted, where = like(input, dtype, device, "full_like")
    value = fill_value.item() if isinstance(fill_value, Tensor) else fill_value
    number = held(value, wanted)
    shape, order = input._layout.shape, order_like(input, memory_format)
    return filled(number, shape, wanted, where, requires_grad, layout, pin_memory, order)


# The public names, which `fastdist` exports.
__all__ = [
    "as_tensor",
    "empty",
    "empty_like",
    "from_numpy",
    "full",
    "full_like",
    "ones",
    "ones_like",
    "tensor",
    "zeros",
    "zeros_like",
]
