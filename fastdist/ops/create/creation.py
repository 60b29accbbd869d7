"""Tensors out of nothing: from data, filled, ranges."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from ...core import dtypes
from ...core.caller_warning import warn_caller
from ...core.device import CPU, Device, chosen, get_default_device
from ...core.dtypes import FLOAT8, DType, dtype_of, uint64
from ...core.errors import DTypeError, ShapeError
from ...core.memory_format import MemoryFormat, MemoryLayout, preserve_format, strided
from ...core.short_repr import short_repr
from ...devices.backend import Result, backend_of
from ...devices.cpu import copy_into, copy_of
from ...devices.gpus import device_count
from ...dispatch.composite import SignatureWithOut, checked
from ...dispatch.target import store_in_out
from ...interpreters.sparse_rules import refusal
from ...interpreters.torch_function import overridable_by_modes
from ...language.scalar import Body, parse
from ...tensor.constants import fits, held
from ...tensor.dlpack import from_dlpack
from ...tensor.layout import Shape, memory_order
from ...tensor.promotion import dtype_of_number, dtype_or_default
from ...tensor.tensor import Tensor, from_array, from_users_array, layout_of, wrap
from ..listed_numbers import array_of_lists, dtype_among, require_real
from .quick import ones_of, quick_full, quick_full_like, quick_like, quick_sizes

F = TypeVar("F", bound=Callable[..., Any])
_empty: Callable[..., np.ndarray[Any, Any]] = backend_of("cpu").empty


def finish(
    array: np.ndarray[Any, Any],
    device: Any,
    requires_grad: bool,
    layout: MemoryLayout | None = None,
    pin_memory: bool = False,
    *,
    is_constant: bool = False,
) -> Tensor:
    """Return a Tensor on device over a NumPy array that no other object uses.

    `is_constant` says that every run creates the same values, so a captured graph may keep them.

    Raises  RuntimeError for another layout than strided, or for pinned memory
    """
    if device is None and chosen.count:
        device = get_default_device()
    if pin_memory or layout is not None:
        require_ordinary(layout, pin_memory, CPU if device is None else Device.parse(device))
    if device is None or device is CPU:
        array = in_pinned_memory(array) if pin_memory else array
        out = wrap(array, layout_of(array))
    else:
        where = Device.parse(device)
        backend = backend_of(where.type)
        upload = backend.from_constant if is_constant else backend.from_numpy
        raw = upload(array, where.index)
        out = wrap(raw, layout_of(raw, where))
    if requires_grad:
        out.requires_grad_()
    return out


def elsewhere(device: Any) -> Device | None:
    """Return the device on which what is made there lives; None for the CPU."""
    if device is None and chosen.count:
        device = get_default_device()
    where = CPU if device is None else Device.parse(device)
    return None if where is CPU else where


def new_filled(
    values: Callable[[], np.ndarray[Any, Any]],
    write: Callable[[Any, Any], None] | None,
    shape: Shape,
    dtype: DType,
    device: Any,
    requires_grad: bool,
    layout: MemoryLayout | None = None,
    pin_memory: bool = False,
    order: Sequence[int] | None = None,
) -> Tensor:
    """Return a Tensor on device: on the CPU of values(), in C order; elsewhere filled there by
    write(backend, raw array), or of values() too where that is None.

    `order` has its axes from the slowest to the fastest in memory, None: in C order.

    Raises  RuntimeError for another layout than strided, or for pinned memory
    """
    where = elsewhere(device)
    if where is not None and where.type == "meta":
        write = write_nothing  # neither memory nor the generator's numbers are used
    if where is None or write is None:
        array = values()
        array = array if order is None else laid_out(array, order)
        return finish(array, where or CPU, requires_grad, layout, pin_memory)
    require_ordinary(layout, pin_memory, where)
    backend = backend_of(where.type)
    result = Result(shape, dtype.numpy, shape, order)
    raw = result.made_by(lambda shape, dtype: backend.empty(shape, dtype, where.index))
    with backend.current_stream(where.index):
        write(backend, raw)
    out = wrap(raw, layout_of(raw, where))
    return out.requires_grad_() if requires_grad else out


def _filled(
    number: Any,
    shape: Shape,
    dtype: DType,
    device: Any,
    requires_grad: bool,
    layout: MemoryLayout | None,
    pin_memory: bool,
    order: Sequence[int] | None = None,
) -> Tensor:
    """Return a Tensor filled with a number, None: with what the memory held; the rest is made's."""

    def values() -> np.ndarray[Any, Any]:
        if number is None:
            return _empty(shape, dtype.numpy)
        if number.__class__ is int and number == 0:
            return np.zeros(shape, dtype.numpy)  # the pages come with their first use
        return laid_in(_empty(shape, dtype.numpy), number)

    def write(backend: Any, raw: Any) -> None:
        if number is not None:
            write_number(backend, number, raw)

    return new_filled(values, write, shape, dtype, device, requires_grad, layout, pin_memory, order)


def write_nothing(backend: Any, raw: Any) -> None:
    """Leave a raw array as it is: one of the meta device has no values."""


def number_like(input: Tensor, value: Any, make: Callable[..., Any] = held) -> Tensor:
    """Return a number as an element of input's dtype, on its device; a kernel takes it there."""
    dtype, where = input._layout.dtype, input._layout.device
    number = make(value, dtype)
    if where is CPU:
        return from_array(number)
    return _filled(number, (), dtype, where, False, None, False)


def write_number(backend: Any, number: Any, raw: Any) -> None:
    """Write a number into all of a raw array of a device."""
    backend.pointwise(_itself(), [np.asarray(number, raw.dtype)], raw)


@functools.cache
def _itself() -> Body:
    return parse("x", ("x",))


def fills_out(call: F) -> F:
    """Return a function that makes a tensor with an `out=`, into which it writes what it makes, in
    out's dtype.

    Raises  RuntimeError for a dtype= that is not out's
    """

    @functools.wraps(call)
    def public(*args: Any, out: Any = None, **kwargs: Any) -> Any:
        if out is None:
            return call(*args, **kwargs)
        if not isinstance(out, Tensor):
            raise TypeError(
                f"{call.__name__}(): argument 'out' must be a Tensor, not {type(out).__name__}"
            )
        given, layout = kwargs.get("dtype"), out._layout
        if given is not None and dtype_of(given) is not layout.dtype:
            raise DTypeError(
                f"dtype {dtype_of(given).name} does not match dtype of out parameter "
                f"({layout.dtype.name})"
            )
        kwargs.update(dtype=layout.dtype, device=layout.device)
        return store_in_out(call.__name__, out, call(*args, **kwargs), ())

    public.__signature__ = SignatureWithOut(call)  # type: ignore[attr-defined]
    return public  # type: ignore[return-value]


def require_ordinary(layout: Any, pin_memory: Any, device: Device) -> None:
    """Raise RuntimeError unless the layout is strided; memory may be pinned only on the CPU, and
    with a GPU.
    """
    if layout is not None and layout is not strided:
        raise TypeError(f"argument 'layout' must be fastdist.strided, not {short_repr(layout)}")
    if pin_memory and device is not CPU:
        raise RuntimeError(
            f"Only dense CPU tensors can be pinned, and this one would be on {device}: leave "
            "pin_memory out"
        )
    if pin_memory and not device_count():
        raise RuntimeError(
            "pin_memory=True requires a CUDA or other accelerator backend; no pinned memory "
            "allocator is available on this system. Leave it out where cuda.is_available() is False"
        )


def in_pinned_memory(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return a copy of values of the CPU in memory from which a GPU reads directly."""
    backend: Any = backend_of("cuda")
    copy: np.ndarray[Any, Any] = backend.pinned_copy(array)
    return copy


def sizes_of(size: tuple[Any, ...]) -> Shape:
    """Return the shape that zeros(2, 3), zeros((2, 3)) or zeros([2, 3]) asks for.

    Raises  RuntimeError for a negative length
    """
    if len(size) == 1 and not hasattr(size[0], "__index__"):
        size = tuple(size[0])
    try:
        shape = tuple([n.__index__() for n in size])
    except (AttributeError, TypeError) as error:
        raise TypeError(f"sizes must be integers, got {short_repr(size)}") from error
    if any(n < 0 for n in shape):
        raise ShapeError(
            f"Trying to create tensor with negative dimension {short_repr(min(shape))}: "
            f"{short_repr(list(shape))}"
        )
    return shape


@overridable_by_modes
def tensor(
    data: Any, *, dtype: DType | None = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Return a new leaf with a copy of data: a number, nested lists of numbers, a NumPy array or a
    Tensor.

    Dtype   Python floats -> the default dtype, integers -> int64, bools -> bool; arrays theirs;
            numbers in lists -> the one in which they meet
    Raises  ValueError for lists of unequal length, TypeError for a value that is not a number

    Args:
        data: The values; tensors and arrays are copied.
        dtype: The dtype of the result; that of the input, or the default dtype, if None.
        device: Where the result lives; the default device if None.
        requires_grad: Whether autograd records what is computed from the result.

    Returns:
        A leaf of the graph. `as_tensor` shares memory where it can instead of copying.

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
    elif isinstance(data, np.ndarray | np.generic) or hasattr(data, "__array__"):
        array = copy_of(np.asarray(data))  # of another library's tensor, too
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


def laid_in(room: np.ndarray[Any, Any], values: Any) -> np.ndarray[Any, Any]:
    """Write values into room, as C casts them or as PyTorch rounds to float8 types; return it."""
    if room.dtype in FLOAT8:
        copy_into(room, np.asarray(values))
    else:
        np.copyto(room, values, "unsafe")
    return room


def rounded(array: np.ndarray[Any, Any], wanted: DType) -> np.ndarray[Any, Any]:
    """Return array in the wanted dtype, infinite where that is too small, without a warning."""
    require_real(array, wanted)
    with np.errstate(all="ignore"):
        if wanted.is_float8:
            return laid_in(_empty(array.shape, wanted.numpy), array)
        return array.astype(wanted.numpy, copy=False)


def _require_held(array: np.ndarray[Any, Any], wanted: DType) -> None:
    """Raise if an integer dtype does not hold some number of array.

    Raises  RuntimeError; floating dtypes round, and what is too large for them becomes infinite
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
    """Return data as a Tensor, sharing memory with a Tensor, a CPU array or one on a GPU
    (`__cuda_array_interface__`) of the right dtype.

    Args:
        data: A tensor, an array, a number, or nested lists of numbers.
        dtype: The dtype of the result; that of the input, or the default dtype, if None.
        device: Where the result lives; the default device if None.

    Returns:
        A tensor; data itself if it is one of the right dtype and device.

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


def from_numpy(array: np.ndarray[Any, Any]) -> Tensor:
    """Return a Tensor that shares memory with a NumPy array.

    Raises  TypeError for an array of another type, or of a dtype that fastdist does not have

    Args:
        array: The array, of a dtype that tensors have.

    Returns:
        A tensor: writing into it changes the array as well.

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
    fill_value: Any,
    *,
    dtype: DType | None = None,
    layout: MemoryLayout | None = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """Return a tensor of size filled with fill_value, in its dtype unless dtype is given.

    Args:
        size: The lengths of the axes, as a tuple.
        fill_value: The number.
        dtype: The dtype of the result; if None, int64, bool or the default dtype, by the number.
        layout: The layout of the result; `strided` if None.
        device: Where the result lives; the default device if None.
        pin_memory: Whether to take page-locked memory, from which copies to a GPU are faster.
        requires_grad: Whether autograd records what is computed from the result.

    Example:
        >>> torch.full((2, 2), 7)
        tensor([[7, 7],
                [7, 7]])
    """
    value = as_number(fill_value)  # of NumPy, too, a number counts as one of Python's
    wanted = dtype_of_number(value) if dtype is None else dtype_of(dtype)
    number = held(value, wanted)
    return _filled(number, sizes_of((size,)), wanted, device, requires_grad, layout, pin_memory)


@quick_sizes(np.zeros)
@checked
@fills_out
def zeros(
    *size: Any,
    dtype: DType | None = None,
    layout: MemoryLayout | None = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """Return a tensor of zeros, in the default dtype unless dtype is given.

    Args:
        *size: The lengths of the axes, as numbers or as one tuple.
        dtype: The dtype of the result; that of the input, or the default dtype, if None.
        layout: The layout of the result; `strided` if None.
        device: Where the result lives; the default device if None.
        pin_memory: Whether to take page-locked memory, from which copies to a GPU are faster.
        requires_grad: Whether autograd records what is computed from the result.

    Example:
        >>> torch.zeros(2, 3)
        tensor([[0., 0., 0.],
                [0., 0., 0.]])
        >>> torch.zeros((2,), dtype=torch.int64)
        tensor([0, 0])
    """
    wanted = dtype_or_default(dtype)
    return _filled(0, sizes_of(size), wanted, device, requires_grad, layout, pin_memory)


@quick_sizes(ones_of)
@checked
@fills_out
def ones(
    *size: Any,
    dtype: DType | None = None,
    layout: MemoryLayout | None = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """Return a tensor of ones, in the default dtype unless dtype is given.

    Args:
        *size: The lengths of the axes, as numbers or as one tuple.
        dtype: The dtype of the result; that of the input, or the default dtype, if None.
        layout: The layout of the result; `strided` if None.
        device: Where the result lives; the default device if None.
        pin_memory: Whether to take page-locked memory, from which copies to a GPU are faster.
        requires_grad: Whether autograd records what is computed from the result.

    Example:
        >>> torch.ones(2, 3)
        tensor([[1., 1., 1.],
                [1., 1., 1.]])
    """
    wanted = dtype_or_default(dtype)
    return _filled(1, sizes_of(size), wanted, device, requires_grad, layout, pin_memory)


@quick_sizes(np.empty)
@checked
@fills_out
def empty(
    *size: Any,
    dtype: DType | None = None,
    layout: MemoryLayout | None = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    memory_format: MemoryFormat | None = None,
) -> Tensor:
    """Return a tensor whose elements are whatever the memory held before.

    Args:
        *size: The lengths of the axes, as numbers or as one tuple.
        dtype: The dtype of the result; that of the input, or the default dtype, if None.
        layout: The layout of the result; `strided` if None.
        device: Where the result lives; the default device if None.
        pin_memory: Whether to take page-locked memory, from which copies to a GPU are faster.
        requires_grad: Whether autograd records what is computed from the result.
        memory_format: The order of the elements in memory.

    Example:
        >>> torch.empty(2, 3).shape
        fastdist.Size([2, 3])
    """
    wanted = dtype_or_default(dtype)
    shape = sizes_of(size)
    order = None if memory_format is None else memory_format.order(len(shape))
    return _filled(None, shape, wanted, device, requires_grad, layout, pin_memory, order)


def like(
    input: Tensor, dtype: DType | None, device: Any, name: str | None = None
) -> tuple[DType, Any]:
    """Return dtype and device, those of input unless given.

    Raises  NotImplementedError for a sparse tensor if `name`, the function's, is given
    """
    if name is not None and input._layout.is_sparse:
        raise refusal(name, input)
    wanted = input._layout.dtype if dtype is None else dtype_of(dtype)
    return wanted, input._layout.device if device is None else device


def order_like(input: Tensor, memory_format: MemoryFormat | None = None) -> Sequence[int] | None:
    """Return the axes of what is made like input, from the slowest to the fastest in memory; None
    for C order.
    """
    if memory_format is None or memory_format is preserve_format:
        return None if input._layout.contiguous else memory_order(input._layout)
    return memory_format.order(len(input._layout.shape))


def laid_out(array: np.ndarray[Any, Any], order: Sequence[int]) -> np.ndarray[Any, Any]:
    """Return a copy whose axes lie in order in memory, from the slowest to the fastest."""
    room = Result(array.shape, array.dtype, array.shape, order).made_by(_empty)
    return laid_in(room, array)


def _no_entries(input: Tensor, dtype: DType, device: Any, requires_grad: bool) -> Tensor:
    """Return a sparse tensor like another, of zeros alone."""
    coo = input._array.without_entries(dtype, Device.parse(device))
    made = wrap(coo, coo.layout)
    return made.requires_grad_() if requires_grad else made


@quick_like(np.zeros)
@checked
def zeros_like(
    input: Tensor,
    *,
    dtype: DType | None = None,
    layout: MemoryLayout | None = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    memory_format: MemoryFormat | None = None,
) -> Tensor:
    """Return zeros of input's shape, strides, dtype and device.

    Args:
        input: The tensor.
        dtype: The dtype of the result; that of the input, or the default dtype, if None.
        layout: The layout of the result; `strided` if None.
        device: Where the result lives; the default device if None.
        pin_memory: Whether to take page-locked memory, from which copies to a GPU are faster.
        requires_grad: Whether autograd records what is computed from the result.
        memory_format: The order of the elements in memory.

    Example:
        >>> torch.zeros_like(torch.ones(2, dtype=torch.float64))
        tensor([0., 0.], dtype=fastdist.float64)
    """
    if input._layout.is_sparse and layout is not strided:
        return _no_entries(input, *like(input, dtype, device), requires_grad)
    wanted, where = like(input, dtype, device)
    shape, order = input._layout.shape, order_like(input, memory_format)
    return _filled(0, shape, wanted, where, requires_grad, layout, pin_memory, order)


@quick_like(ones_of)
@checked
def ones_like(
    input: Tensor,
    *,
    dtype: DType | None = None,
    layout: MemoryLayout | None = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    memory_format: MemoryFormat | None = None,
) -> Tensor:
    """Return ones of input's shape, strides, dtype and device.

    Args:
        input: The tensor.
        dtype: The dtype of the result; that of the input, or the default dtype, if None.
        layout: The layout of the result; `strided` if None.
        device: Where the result lives; the default device if None.
        pin_memory: Whether to take page-locked memory, from which copies to a GPU are faster.
        requires_grad: Whether autograd records what is computed from the result.
        memory_format: The order of the elements in memory.

    Example:
        >>> torch.ones_like(torch.zeros(2, dtype=torch.int64))
        tensor([1, 1])
    """
    wanted, where = like(input, dtype, device, "ones_like")
    shape, order = input._layout.shape, order_like(input, memory_format)
    return _filled(1, shape, wanted, where, requires_grad, layout, pin_memory, order)


@quick_like(np.empty)
@checked
def empty_like(
    input: Tensor,
    *,
    dtype: DType | None = None,
    layout: MemoryLayout | None = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    memory_format: MemoryFormat | None = None,
) -> Tensor:
    """Return a tensor of input's shape, strides, dtype and device, whose elements are whatever the
    memory held before.

    Args:
        input: The tensor.
        dtype: The dtype of the result; that of the input, or the default dtype, if None.
        layout: The layout of the result; `strided` if None.
        device: Where the result lives; the default device if None.
        pin_memory: Whether to take page-locked memory, from which copies to a GPU are faster.
        requires_grad: Whether autograd records what is computed from the result.
        memory_format: The order of the elements in memory.

    Example:
        >>> torch.empty_like(torch.ones(2, 3)).shape
        fastdist.Size([2, 3])
    """
    if input._layout.is_sparse and layout is not strided:
        return _no_entries(input, *like(input, dtype, device), requires_grad)
    wanted, where = like(input, dtype, device)
    shape, order = input._layout.shape, order_like(input, memory_format)
    return _filled(None, shape, wanted, where, requires_grad, layout, pin_memory, order)


@quick_full_like
@checked
def full_like(
    input: Tensor,
    fill_value: Any,
    *,
    dtype: DType | None = None,
    layout: MemoryLayout | None = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    memory_format: MemoryFormat | None = None,
) -> Tensor:
    """Return fill_value in input's shape, strides, dtype and device.

    Args:
        input: The tensor.
        fill_value: The number.
        dtype: The dtype of the result; that of the input, or the default dtype, if None.
        layout: The layout of the result; `strided` if None.
        device: Where the result lives; the default device if None.
        pin_memory: Whether to take page-locked memory, from which copies to a GPU are faster.
        requires_grad: Whether autograd records what is computed from the result.
        memory_format: The order of the elements in memory.

    Example:
        >>> torch.full_like(torch.zeros(2), 7)
        tensor([7., 7.])
    """
    wanted, where = like(input, dtype, device, "full_like")
    value = fill_value.item() if isinstance(fill_value, Tensor) else fill_value
    number = held(value, wanted)
    shape, order = input._layout.shape, order_like(input, memory_format)
    return _filled(number, shape, wanted, where, requires_grad, layout, pin_memory, order)


def as_number(value: Any) -> Any:
    return value.item() if isinstance(value, Tensor | np.generic) else value


# The names that `fastdist` offers.
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
