"""Tensors out of nothing: from data, filled, ranges."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, TypeVar

import numpy as np

from ..core import dtypes
from ..core.caller_warning import warn_caller
from ..core.device import CPU, Device, chosen, get_default_device
from ..core.dtypes import DType, bool_, dtype_of, int64
from ..core.errors import DTypeError, ShapeError
from ..core.memory_format import MemoryFormat, MemoryLayout, preserve_format, strided
from ..devices.backend import backend_of
from ..dispatch.arguments import checked
from ..dispatch.composite import composite
from ..dispatch.constants import fits, held
from ..dispatch.output import given_out, with_out_parameter
from ..dispatch.pointwise import memory_order
from ..dispatch.promotion import dtype_of_number, dtype_or_default, get_default_dtype
from ..dispatch.sparse_rules import refusal
from ..tensor.layout import Shape
from ..tensor.tensor import Tensor, from_users_array, layout_of, wrap
from .listed_numbers import array_of_lists, dtype_among

F = TypeVar("F", bound=Callable[..., Any])


def finish(
    array: np.ndarray[Any, Any],
    device: Any,
    requires_grad: bool,
    layout: MemoryLayout | None = None,
    pin_memory: bool = False,
) -> Tensor:
    """Return a Tensor of a NumPy array that nobody else holds, on device.

    Raises  RuntimeError for another layout than strided, or for pinned memory
    """
    if pin_memory or layout is not None:
        require_ordinary(layout, pin_memory)
    if device is None and chosen.count:
        device = get_default_device()
    if device is None or device is CPU:
        out = wrap(array, layout_of(array))
    else:
        where = Device.parse(device)
        raw = backend_of(where.type).from_numpy(array, where.index)
        out = wrap(raw, layout_of(raw, where))
    if requires_grad:
        out.requires_grad_()
    return out


def fills_out(call: F) -> F:
    """Return a function that makes a tensor with an `out=`, into which it writes what it makes, in
    out's dtype.

    Raises  RuntimeError for a dtype= that is not out's
    """

    @wraps(call)
    def public(*args: Any, out: Any = None, **kwargs: Any) -> Any:
        if out is None:
            return call(*args, **kwargs)
        if not isinstance(out, Tensor):
            raise TypeError(
                f"{call.__name__}(): argument 'out' must be a Tensor, not {type(out).__name__}"
            )
        given, layout = kwargs.get("dtype"), out.facts
        if given is not None and dtype_of(given) is not layout.dtype:
            raise DTypeError(
                f"dtype {dtype_of(given).name} does not match dtype of out parameter "
                f"({layout.dtype.name})"
            )
        kwargs.update(dtype=layout.dtype, device=layout.device)
        return given_out(call.__name__, out, call(*args, **kwargs), ())

    public.__signature__ = with_out_parameter(call)  # type: ignore[attr-defined]
    return public  # type: ignore[return-value]


def require_ordinary(layout: Any, pin_memory: Any) -> None:
    """Raise RuntimeError unless memory is asked for that lies strided, in pages of its own."""
    if layout is not None and layout is not strided:
        raise TypeError(f"argument 'layout' must be fastdist.strided, not {layout!r}")
    if pin_memory:
        raise RuntimeError(
            "pin_memory=True requires a CUDA or other accelerator backend; no pinned memory "
            "allocator is available on this system. Leave it out: copies to a GPU are the same"
        )


def sizes_of(size: tuple[Any, ...]) -> Shape:
    """Return the shape that zeros(2, 3), zeros((2, 3)) or zeros([2, 3]) asks for.

    Raises  RuntimeError for a negative length
    """
    if len(size) == 1 and not hasattr(size[0], "__index__"):
        size = tuple(size[0])
    try:
        shape = tuple([n.__index__() for n in size])
    except (AttributeError, TypeError) as error:
        raise TypeError(f"sizes must be integers, got {size!r}") from error
    if any(n < 0 for n in shape):
        raise ShapeError(
            f"Trying to create tensor with negative dimension {min(shape)}: {list(shape)}"
        )
    return shape


def tensor(
    data: Any, *, dtype: DType | None = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Return a new leaf with a copy of data: a number, nested lists of numbers, a NumPy array or a
    Tensor.

    Dtype   Python floats -> the default dtype, integers -> int64, bools -> bool; arrays theirs;
            numbers in lists -> the one in which they meet
    Raises  ValueError for lists of unequal length, TypeError for what is no number
    """
    if isinstance(data, Tensor):
        warn_caller(
            "To copy construct from a tensor, it is recommended to use sourceTensor.detach()"
            ".clone() or sourceTensor.detach().clone().requires_grad_(True), rather than "
            "torch.tensor(sourceTensor)."
        )
        if data.facts.is_sparse:
            made: Any = data.detach().to(device=device or data.facts.device, dtype=dtype).clone()
            return made.requires_grad_() if requires_grad else made  # type: ignore[no-any-return]
        array = np.array(data.to_numpy(), order="C")
    elif isinstance(data, np.ndarray | np.generic) or hasattr(data, "__array__"):
        array = np.array(np.asarray(data), order="C")  # of another library's tensor, too
    else:
        array, named = array_of_lists(data)
        if dtype is None and named:
            dtype = dtype_among(data)
        elif dtype is None and array.dtype == np.float64:
            dtype = get_default_dtype()
    if array.dtype.byteorder == ">":
        array = array.astype(array.dtype.newbyteorder("="))
    wanted = dtypes.from_numpy(array.dtype) if dtype is None else dtype_of(dtype)
    if not isinstance(data, Tensor) and not hasattr(data, "__array__"):
        _require_held(array, wanted)
    return finish(_rounded(array, wanted), device, requires_grad)


def _rounded(array: np.ndarray[Any, Any], wanted: DType) -> np.ndarray[Any, Any]:
    """Return array in the wanted dtype, infinite where that is too small, without a warning."""
    with np.errstate(all="ignore"):
        return array.astype(wanted.numpy, copy=False)


def _require_held(array: np.ndarray[Any, Any], wanted: DType) -> None:
    """Raise if an integer dtype does not hold some number of array.

    Raises  RuntimeError; floating dtypes round, and what is too large for them becomes infinite
    """
    if wanted.numpy.kind not in "iu" or array.dtype.kind == "b" or array.dtype == wanted.numpy:
        return
    if not fits(array, wanted.numpy):
        low, high = array.min(), array.max()
        raise RuntimeError(
            f"value cannot be converted to type {wanted.name} without overflow: the numbers given "
            f"lie from {low} to {high}"
        )


@checked
def as_tensor(data: Any, dtype: DType | None = None, device: Any = None) -> Tensor:
    """Return data as a Tensor, sharing memory with a Tensor or CPU array of the right dtype."""
    if isinstance(data, Tensor):
        return data.to(dtype=dtype, device=device)
    right = isinstance(data, np.ndarray) and (dtype is None or data.dtype == dtype_of(dtype).numpy)
    if right and (device is None or Device.parse(device) is CPU):
        return from_numpy(data)
    return tensor(data, dtype=dtype, device=device)


def from_numpy(array: np.ndarray[Any, Any]) -> Tensor:
    """Return a Tensor that shares memory with a NumPy array.

    Raises  TypeError for an array of another type, or of a dtype that fastdist does not have
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
    """Return a tensor of size filled with fill_value, in its dtype unless dtype is given."""
    value = _number(fill_value)  # of NumPy, too, a number counts as one of Python's
    wanted = dtype_of_number(value) if dtype is None else dtype_of(dtype)
    number = held(value, wanted)
    return finish(
        np.full(sizes_of((size,)), number, wanted.numpy), device, requires_grad, layout, pin_memory
    )


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
    """Return a tensor of zeros, in the default dtype unless dtype is given."""
    wanted = dtype_or_default(dtype)
    return finish(np.zeros(sizes_of(size), wanted.numpy), device, requires_grad, layout, pin_memory)


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
    """Return a tensor of ones, in the default dtype unless dtype is given."""
    wanted = dtype_or_default(dtype)
    return finish(np.ones(sizes_of(size), wanted.numpy), device, requires_grad, layout, pin_memory)


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
    """Return a tensor whose elements are whatever the memory held."""
    wanted = dtype_or_default(dtype)
    array = np.empty(sizes_of(size), wanted.numpy)
    if memory_format is not None and memory_format.axes is not None:
        memory_format.require_rank(array.ndim)
        array = laid_out(array, memory_format.axes)
    return finish(array, device, requires_grad, layout, pin_memory)


def like(
    input: Tensor, dtype: DType | None, device: Any, name: str | None = None
) -> tuple[DType, Any]:
    """Return dtype and device, those of input unless given.

    Raises  NotImplementedError for a sparse tensor, where it is told what is asked
    """
    if name is not None and input.facts.is_sparse:
        raise refusal(name, input)
    wanted = input.facts.dtype if dtype is None else dtype_of(dtype)
    return wanted, input.facts.device if device is None else device


def in_order_of(
    input: Tensor, array: np.ndarray[Any, Any], memory_format: MemoryFormat | None = None
) -> np.ndarray[Any, Any]:
    """Return array, in C order, laid out as memory_format says, or else as input lies: a transposed
    input gives a transposed result.
    """
    if memory_format is None or memory_format is preserve_format:
        order = None if input.facts.contiguous else memory_order(input.facts)
    else:
        memory_format.require_rank(array.ndim)
        order = None if memory_format.axes is None else list(memory_format.axes)
    return array if order is None else laid_out(array, order)


def laid_out(array: np.ndarray[Any, Any], order: Sequence[int]) -> np.ndarray[Any, Any]:
    """Return a copy whose axes lie in order in memory, from the slowest to the fastest."""
    packed = np.empty(tuple(array.shape[axis] for axis in order), array.dtype)
    room = packed.transpose(tuple(order.index(axis) for axis in range(len(order))))
    room[...] = array
    return room


def _no_entries(input: Tensor, dtype: DType, device: Any, requires_grad: bool) -> Tensor:
    """Return a sparse tensor like another, of zeros alone."""
    coo = input.array.without_entries(dtype, Device.parse(device))
    made = wrap(coo, coo.facts)
    return made.requires_grad_() if requires_grad else made


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
    """Return zeros of input's shape, strides, dtype and device."""
    if input.facts.is_sparse and layout is not strided:
        return _no_entries(input, *like(input, dtype, device), requires_grad)
    wanted, where = like(input, dtype, device)
    array = in_order_of(input, np.zeros(input.facts.shape, wanted.numpy), memory_format)
    return finish(array, where, requires_grad, layout, pin_memory)


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
    """Return ones of input's shape, strides, dtype and device."""
    wanted, where = like(input, dtype, device, "ones_like")
    array = in_order_of(input, np.ones(input.facts.shape, wanted.numpy), memory_format)
    return finish(array, where, requires_grad, layout, pin_memory)


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
    """Return uninitialised memory of input's shape, strides, dtype and device."""
    if input.facts.is_sparse and layout is not strided:
        return _no_entries(input, *like(input, dtype, device), requires_grad)
    wanted, where = like(input, dtype, device)
    array = in_order_of(input, np.empty(input.facts.shape, wanted.numpy), memory_format)
    return finish(array, where, requires_grad, layout, pin_memory)


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
    """Return fill_value in input's shape, strides, dtype and device."""
    wanted, where = like(input, dtype, device, "full_like")
    value = fill_value.item() if isinstance(fill_value, Tensor) else fill_value
    number = held(value, wanted)
    array = in_order_of(input, np.full(input.facts.shape, number, wanted.numpy), memory_format)
    return finish(array, where, requires_grad, layout, pin_memory)


def _number(value: Any) -> Any:
    return value.item() if isinstance(value, Tensor | np.generic) else value


@checked
@fills_out
def arange(
    start: Any = None,
    end: Any = None,
    step: Any = 1,
    *,
    dtype: DType | None = None,
    layout: MemoryLayout | None = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """Return start, start + step, ... up to but without end; arange(n) starts at 0.

    Dtype   int64 if all are integers, else the default dtype
    Raises  RuntimeError for a step of 0, or one that leads away from end
    """
    if start is None and end is None:
        raise TypeError("arange() needs an end: arange(end) or arange(start, end, step=1)")
    if end is None:
        start, end = 0, start
    elif start is None:
        start = 0
    start, end, step = [_number(one) for one in (start, end, step)]
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if not (math.isfinite(start) and math.isfinite(end)):
        raise RuntimeError(f"unsupported range: {start} -> {end}")
    if (end - start) * step < 0:
        raise RuntimeError(
            f"upper bound and lower bound inconsistent with step sign: {start}, {end}, {step}"
        )
    whole = all(isinstance(value, int) for value in (start, end, step))
    wanted = int64 if whole else get_default_dtype()
    wanted = wanted if dtype is None else dtype_of(dtype)
    _require_number_dtype("arange", wanted)
    if wanted is int64:
        # What int64 makes of them counts, as in PyTorch; shorter integers count first, then step.
        start, end, step = int(start), int(end), int(step)
        whole = True
        if step == 0:
            raise RuntimeError("step must be nonzero: int64 makes 0 of it")
    # Whole numbers are counted without a fraction, which would be off beyond 2**53.
    count = -((start - end) // step) if whole else math.ceil((end - start) / step)
    if not wanted.is_floating_point:
        # An integer dtype steps by integers, as in PyTorch: 0.5 is no step at all.
        start, step = int(start), int(step)
    kind = np.float64 if wanted.is_floating_point else np.int64
    values = start + np.arange(count, dtype=kind) * step
    return finish(_rounded(values, wanted), device, requires_grad, layout, pin_memory)


@composite(name="range", method=False)
def range_(
    start: Any = 0,
    end: Any = None,
    step: Any = 1,
    *,
    dtype: DType | None = None,
    layout: MemoryLayout | None = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """Return start, start + step, ... up to and with end, in the default dtype; arange is newer.

    Raises  RuntimeError for a step of 0, or one that leads away from end
    """
    warn_caller(
        "torch.range is deprecated and will be removed in a future release because its behavior is "
        "inconsistent with Python's range builtin. Instead, use torch.arange, which produces "
        "values in [start, end)."
    )
    if end is None:
        start, end = 0, start
    start, end, step = [_number(one) for one in (start, end, step)]
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if (end - start) * step < 0:
        raise RuntimeError(
            f"upper bound and lower bound inconsistent with step sign: {start}, {end}, {step}"
        )
    wanted = dtype_or_default(dtype)
    values = start + np.arange(math.floor((end - start) / step) + 1) * step
    return finish(_rounded(values, wanted), device, requires_grad, layout, pin_memory)


@checked
@fills_out
def linspace(
    start: float,
    end: float,
    steps: int,
    *,
    dtype: DType | None = None,
    layout: MemoryLayout | None = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """Return steps numbers from start to end, both included, equally far apart."""
    if steps < 0:
        raise RuntimeError(f"number of steps must be non-negative, got {steps}")
    wanted = dtype_or_default(dtype)
    if steps > 1:
        _require_number_dtype("linspace", wanted)
    first, last = held(_number(start), wanted), held(_number(end), wanted)
    return finish(
        _rounded(evenly_apart(first, last, steps), wanted),
        device,
        requires_grad,
        layout,
        pin_memory,
    )


def evenly_apart(start: Any, end: Any, steps: int) -> np.ndarray[Any, Any]:
    """Return steps numbers from start to end, two NumPy scalars of one dtype, counted from both:
    what is as far from start as another from end is its mirror image, to the last bit.

    Dtype   floating -> the same; integers -> float64
    """
    if start.dtype.kind != "f":
        start, end = np.float64(start), np.float64(end)
    with np.errstate(all="ignore"):
        step = (end - start) / start.dtype.type(max(steps - 1, 1))
        behind = np.arange(steps).astype(start.dtype)
        found = np.where(
            np.arange(steps) < steps // 2, start + step * behind, end - step * behind[::-1]
        )
    return found if steps != 1 else np.full(1, start)


def _require_number_dtype(name: str, wanted: DType) -> None:
    if wanted is bool_:
        raise DTypeError(f"\"{name}_cpu\" not implemented for 'Bool'; give an integer dtype")


@checked
@fills_out
def eye(
    n: int,
    m: int | None = None,
    *,
    dtype: DType | None = None,
    layout: MemoryLayout | None = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """Return an (n, m) matrix with ones on the diagonal; m = n unless given."""
    if n < 0 or (m is not None and m < 0):
        raise RuntimeError(f"n must be greater or equal to 0, got {n} and {m}")
    wanted = dtype_or_default(dtype)
    return finish(np.eye(n, m, dtype=wanted.numpy), device, requires_grad, layout, pin_memory)
