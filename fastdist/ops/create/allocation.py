"""Allocation of new tensors: size, device, order of the axes, initial values, and `out=`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from ...core.device import CPU, Device, chosen, get_default_device
from ...core.dtypes import FLOAT8, DType, dtype_of
from ...core.errors import DTypeError
from ...core.memory_format import MemoryFormat, MemoryLayout, preserve_format, strided
from ...core.short_repr import short_repr
from ...devices.backend import Backend, Result, backend_of
from ...devices.cpu import copy_into
from ...devices.gpus import device_count
from ...dispatch.declaration import LateSignature
from ...dispatch.target import GivenOut, store_in_out
from ...interpreters.sparse_rules import refusal
from ...language.scalar import Body, parse
from ...tensor.constants import held
from ...tensor.layout import Shape, memory_order
from ...tensor.methods import DeviceLike
from ...tensor.tensor import Tensor, from_array, layout_of, wrap
from ..listed_numbers import require_real

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

    `is_constant` means that every run creates the same values, so that a captured graph may keep
    them.

    Raises  TypeError for a layout other than strided; RuntimeError for pinned memory without a GPU
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
    """Return the device of a new tensor, given the argument `device`; None stands for the CPU."""
    if device is None and chosen.count:
        device = get_default_device()
    where = CPU if device is None else Device.parse(device)
    return None if where is CPU else where


def new_filled(
    values: Callable[[], np.ndarray[Any, Any]],
    write: Callable[[Any, Any], None] | None,
    shape: Shape,
    dtype: DType,
    device: DeviceLike,
    requires_grad: bool,
    layout: MemoryLayout | None = None,
    pin_memory: bool = False,
    order: Sequence[int] | None = None,
) -> Tensor:
    """Return a Tensor on a device, which holds values() on the CPU.

    On another device, write(backend, raw array) fills the Tensor. If write is None, values() is
    copied to the device. `order` lists the axes from the slowest to the fastest in memory; None
    means C order.

    Raises  TypeError for a layout other than strided; RuntimeError for pinned memory without a GPU
    """
    where = elsewhere(device)
    if where is not None and where.type == "meta":
        write = write_nothing  # a meta tensor needs neither memory nor random numbers
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


def filled(
    number: Any,
    shape: Shape,
    dtype: DType,
    device: DeviceLike,
    requires_grad: bool,
    layout: MemoryLayout | None,
    pin_memory: bool,
    order: Sequence[int] | None = None,
) -> Tensor:
    """Return a Tensor filled with number; uninitialized if number is None. See new_filled."""

    def values() -> np.ndarray[Any, Any]:
        if number is None:
            return _empty(shape, dtype.numpy)
        if number.__class__ is int and number == 0:
            return np.zeros(shape, dtype.numpy)  # its pages are mapped when they are first used
        return laid_in(_empty(shape, dtype.numpy), number)

    def write(backend: Backend, raw: Any) -> None:
        if number is not None:
            write_number(backend, number, raw)

    return new_filled(values, write, shape, dtype, device, requires_grad, layout, pin_memory, order)


def write_nothing(backend: Backend, raw: Any) -> None:
    """Write nothing, because tensors of the meta device have no values."""


def number_like(input: Tensor, value: Tensor | complex, make: Callable[..., Any] = held) -> Tensor:
    """Return a number as a 0-d tensor with input's dtype and device, to pass it to a kernel."""
    dtype, where = input._layout.dtype, input._layout.device
    number = make(value, dtype)
    if where is CPU:
        return from_array(number)
    return filled(number, (), dtype, where, False, None, False)


def write_number(backend: Backend, number: Any, raw: Any) -> None:
    """Write a number into every element of a raw array on a device."""
    backend.pointwise(_itself(), [np.asarray(number, raw.dtype)], raw)


@functools.cache
def _itself() -> Body:
    return parse("x", ("x",))


def fills_out(call: F) -> F:
    """Return `call`, a function that creates a tensor, extended by the parameter `out`.

    If `out` is given, the result is written into `out`, in the dtype of `out`.

    Raises  RuntimeError if dtype and `out` are given and dtype is not the dtype of `out`
    """

    @functools.wraps(call)
    def public(*args: Any, out: GivenOut = None, **kwargs: Any) -> Any:
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

    public.__signature__ = LateSignature(call, has_out=True)  # type: ignore[attr-defined]
    return public  # type: ignore[return-value]


def require_ordinary(layout: MemoryLayout | None, pin_memory: bool, device: Device) -> None:
    """Raise TypeError unless the layout is strided, and RuntimeError if memory cannot be pinned.

    Only memory of the CPU can be pinned, and only on a machine with a GPU.
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
    """Return a copy of a CPU array in pinned memory, which a GPU can read directly."""
    backend: Any = backend_of("cuda")
    copy: np.ndarray[Any, Any] = backend.pinned_copy(array)
    return copy


def laid_in(room: np.ndarray[Any, Any], values: Any) -> np.ndarray[Any, Any]:
    """Write values into the array `room` and return it.

    Values are cast as in C, but rounded as in PyTorch for float8 types.
    """
    if room.dtype in FLOAT8:
        copy_into(room, np.asarray(values))
    else:
        np.copyto(room, values, "unsafe")
    return room


def rounded(array: np.ndarray[Any, Any], wanted: DType) -> np.ndarray[Any, Any]:
    """Return array cast to the wanted dtype, without warnings; numbers too large become
    infinite.
    """
    require_real(array, wanted)
    with np.errstate(all="ignore"):
        if wanted.is_float8:
            return laid_in(_empty(array.shape, wanted.numpy), array)
        return array.astype(wanted.numpy, copy=False)


def like(
    input: Tensor, dtype: DType | None, device: DeviceLike, name: str | None = None
) -> tuple[DType, Any]:
    """Return dtype and device; None is replaced by the dtype or device of input.

    Raises  NotImplementedError if input is sparse and `name`, the name of a function, is given
    """
    if name is not None and input._layout.is_sparse:
        raise refusal(name, input)
    wanted = input._layout.dtype if dtype is None else dtype_of(dtype)
    return wanted, input._layout.device if device is None else device


def order_like(input: Tensor, memory_format: MemoryFormat | None = None) -> Sequence[int] | None:
    """Return the order of axes for a result like input, slowest first; None for C order."""
    if memory_format is None or memory_format is preserve_format:
        return None if input._layout.contiguous else memory_order(input._layout)
    return memory_format.order(len(input._layout.shape))


def laid_out(array: np.ndarray[Any, Any], order: Sequence[int]) -> np.ndarray[Any, Any]:
    """Return a copy of array whose axes have the given order in memory, slowest first."""
    room = Result(array.shape, array.dtype, array.shape, order).made_by(_empty)
    return laid_in(room, array)


def no_entries(input: Tensor, dtype: DType, device: Any, requires_grad: bool) -> Tensor:
    """Return a sparse tensor without entries, in the shape of input."""
    coo = input._array.without_entries(dtype, Device.parse(device))
    made = wrap(coo, coo.layout)
    return made.requires_grad_() if requires_grad else made


def as_number(value: Any) -> Any:
    return value.item() if isinstance(value, Tensor | np.generic) else value
