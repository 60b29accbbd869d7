"""Tensors out of nothing: from data, filled, ranges."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..backends.backend import backend_of
from ..core import dtypes
from ..core.device import CPU, Device
from ..core.dtypes import DType, dtype_of, int64
from ..core.errors import ShapeError
from ..dispatch.arguments import checked
from ..dispatch.constants import fits, held
from ..dispatch.pointwise import memory_order
from ..dispatch.promotion import dtype_of_number, get_default_dtype
from ..tensor.layout import Shape
from ..tensor.tensor import Tensor, from_users_array, layout_of, wrap
from .listed_numbers import array_of_lists, dtype_among


def finish(array: np.ndarray[Any, Any], device: Any, requires_grad: bool) -> Tensor:
    """Return a Tensor of a NumPy array that nobody else holds, on device."""
    if device is None or device is CPU:
        out = wrap(array, layout_of(array))
    else:
        where = Device.parse(device)
        raw = backend_of(where.type).from_numpy(array, where.index)
        out = wrap(raw, layout_of(raw, where))
    if requires_grad:
        out.requires_grad_()
    return out


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
        array = np.array(data.to_numpy(), order="C")
    elif isinstance(data, np.ndarray | np.generic) or hasattr(data, "__array__"):
        array = np.array(data, order="C")  # of another library's tensor, too
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
    return from_users_array(array)


@checked
def full(
    size: Any,
    fill_value: Any,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return a tensor of size filled with fill_value, in its dtype unless dtype is given."""
    value = _number(fill_value)  # of NumPy, too, a number counts as one of Python's
    wanted = dtype_of_number(value) if dtype is None else dtype_of(dtype)
    number = held(value, wanted)
    return finish(np.full(sizes_of((size,)), number, wanted.numpy), device, requires_grad)


@checked
def zeros(
    *size: Any, dtype: DType | None = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Return a tensor of zeros, in the default dtype unless dtype is given."""
    wanted = get_default_dtype() if dtype is None else dtype_of(dtype)
    return finish(np.zeros(sizes_of(size), wanted.numpy), device, requires_grad)


@checked
def ones(
    *size: Any, dtype: DType | None = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Return a tensor of ones, in the default dtype unless dtype is given."""
    wanted = get_default_dtype() if dtype is None else dtype_of(dtype)
    return finish(np.ones(sizes_of(size), wanted.numpy), device, requires_grad)


@checked
def empty(
    *size: Any, dtype: DType | None = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Return a tensor whose elements are whatever the memory held."""
    wanted = get_default_dtype() if dtype is None else dtype_of(dtype)
    return finish(np.empty(sizes_of(size), wanted.numpy), device, requires_grad)


def like(input: Tensor, dtype: DType | None, device: Any) -> tuple[DType, Any]:
    """Return dtype and device, those of input unless given."""
    wanted = input.layout.dtype if dtype is None else dtype_of(dtype)
    return wanted, input.layout.device if device is None else device


def in_order_of(input: Tensor, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return array, in C order, laid out as input lies: a transposed input gives a transposed
    result.
    """
    order = None if input.layout.contiguous else memory_order(input.layout)
    if order is None:
        return array
    packed = np.empty(tuple(array.shape[axis] for axis in order), array.dtype)
    room = packed.transpose(tuple(order.index(axis) for axis in range(len(order))))
    room[...] = array
    return room


@checked
def zeros_like(
    input: Tensor, *, dtype: DType | None = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Return zeros of input's shape, strides, dtype and device."""
    wanted, where = like(input, dtype, device)
    array = in_order_of(input, np.zeros(input.layout.shape, wanted.numpy))
    return finish(array, where, requires_grad)


@checked
def ones_like(
    input: Tensor, *, dtype: DType | None = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Return ones of input's shape, strides, dtype and device."""
    wanted, where = like(input, dtype, device)
    array = in_order_of(input, np.ones(input.layout.shape, wanted.numpy))
    return finish(array, where, requires_grad)


@checked
def empty_like(
    input: Tensor, *, dtype: DType | None = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Return uninitialised memory of input's shape, strides, dtype and device."""
    wanted, where = like(input, dtype, device)
    array = in_order_of(input, np.empty(input.layout.shape, wanted.numpy))
    return finish(array, where, requires_grad)


@checked
def full_like(
    input: Tensor,
    fill_value: Any,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return fill_value in input's shape, strides, dtype and device."""
    wanted, where = like(input, dtype, device)
    value = fill_value.item() if isinstance(fill_value, Tensor) else fill_value
    number = held(value, wanted)
    array = in_order_of(input, np.full(input.layout.shape, number, wanted.numpy))
    return finish(array, where, requires_grad)


def _number(value: Any) -> Any:
    return value.item() if isinstance(value, Tensor | np.generic) else value


@checked
def arange(
    start: Any = None,
    end: Any = None,
    step: Any = 1,
    *,
    dtype: DType | None = None,
    device: Any = None,
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
    return finish(_rounded(values, wanted), device, requires_grad)


@checked
def linspace(
    start: float,
    end: float,
    steps: int,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return steps numbers from start to end, both included, equally far apart."""
    if steps < 0:
        raise RuntimeError(f"number of steps must be non-negative, got {steps}")
    wanted = get_default_dtype() if dtype is None else dtype_of(dtype)
    values = np.linspace(_number(start), _number(end), steps)
    return finish(_rounded(values, wanted), device, requires_grad)


@checked
def eye(
    n: int,
    m: int | None = None,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return an (n, m) matrix with ones on the diagonal; m = n unless given."""
    if n < 0 or (m is not None and m < 0):
        raise RuntimeError(f"n must be greater or equal to 0, got {n} and {m}")
    wanted = get_default_dtype() if dtype is None else dtype_of(dtype)
    return finish(np.eye(n, m, dtype=wanted.numpy), device, requires_grad)
