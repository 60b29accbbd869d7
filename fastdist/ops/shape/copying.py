"""Copies: `clone`, `contiguous`, `to` (another dtype or device), and adjoints of some views."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...core import dtypes
from ...core.caller_warning import warn_caller
from ...core.dense_order import undone, walk_order
from ...core.device import Device
from ...core.dtypes import DType
from ...core.errors import ShapeError
from ...core.folded_frames import fold
from ...core.memory_format import MemoryFormat, axes_of, contiguous_format, preserve_format
from ...core.short_repr import short_repr
from ...core.torch_function import NOT_TAKEN
from ...devices.backend import backend_of
from ...dispatch.composite import before, composite
from ...dispatch.op import PLAIN
from ...dispatch.route import Route
from ...dispatch.signature import ArgumentError
from ...dispatch.structured import Plan, StructuredOp, structured
from ...dispatch.target import GivenOut
from ...graph.modes import modes
from ...interpreters.batched_tensor import levels
from ...interpreters.sparse_rules import meet_sparse
from ...tensor.broadcast import axes_to_sum
from ...tensor.constants import held
from ...tensor.layout import Layout, Shape
from ...tensor.tensor import Tensor, layout_of, wrap


@structured("shape.copying.cast", linear=True, has_out=False, batch="last axes", takes_complex=True)
def clone(input: Tensor) -> Tensor:
    """Return a copy of input with the same order of axes in memory. Gradients pass to input.

    Raises  RuntimeError if memory_format is channels_last, and input does not have four axes

    Args:
        input: A tensor of any dtype and device.
        memory_format: The order of the elements in memory; None means input's order.

    Returns:
        A new tensor. Its gradient is passed on to input. For a leaf, call `detach().clone()`.

    Example:
        >>> x = torch.ones(2)
        >>> y = x.clone()
        >>> y[0] = 5
        >>> x
        tensor([1., 1.])
    """


@structured(
    "shape.copying.cast",
    linear=True,
    homes="nowhere",
    batch="last axes",
    known_as="clone",
    takes_complex=True,
)
def packed(input: Tensor) -> Tensor:
    """Return a copy in C order."""


@clone.plan
@packed.plan
def _(input: Tensor) -> Plan:
    return Plan(input._layout.shape, input._layout.dtype)


@clone.vjp("input")
@packed.vjp("input")
def _(g: Tensor) -> Tensor:
    return g


clone.keeps_order = True


@structured(
    "shape.copying.cast",
    linear=True,
    homes="nowhere",
    batch="last axes",
    known_as="_to_copy",
    takes_complex=True,
)
def cast(input: Tensor, dtype: DType) -> Tensor:
    """Return a copy in another dtype. The elements are converted as by a cast in C."""


cast.keeps_order = True


@cast.plan
def _(input: Tensor, dtype: DType) -> Plan:
    return Plan(input._layout.shape, dtype)


@cast.vjp("input")
def _(g: Tensor, input_layout: Layout) -> Any:
    # If input is real, the imaginary part of a complex gradient is dropped on purpose, without a
    # warning.
    return cast(g, input_layout.dtype)


@structured(
    "shape.copying.place",
    homes="nowhere",
    known_as="constant_pad_nd",
    takes_complex=True,
)
def place(input: Tensor, shape: Shape, index: Any, value: complex | None = None) -> Tensor:
    """Return a tensor of this shape, with input at `index`, and with `value` elsewhere. If value is
    None, the other elements are zeros, and this is the adjoint of basic indexing. In `index`, a
    pair of integers represents a slice, because a slice cannot be part of a Route's key.
    """


def _with_slices(index: Any) -> Any:
    """Return index with pairs replaced by slices."""
    if index.__class__ is not tuple:
        return index
    return tuple([slice(*one) if one.__class__ is tuple else one for one in index])


@place.plan
def _(input: Tensor, shape: Shape, index: Any, value: complex | None) -> Plan:
    dtype = input._layout.dtype
    number = np.zeros((), dtype.numpy) if value is None else held(value, dtype)
    return Plan(shape, dtype, (_with_slices(index), number))


@place.batches
def _(op: Any, operands: Any, attributes: Any, level: int) -> Any:
    shape, index, value = attributes
    size = levels.sizes[level - 1]
    entries = index if isinstance(index, tuple) else (index,)
    return op.general((operands[0].value,), ((size, *shape), (slice(None), *entries), value))


@place.vjp("input")
def _(g: Tensor, index: Tensor) -> Tensor:
    return g[_with_slices(index)]


@place.jvp
def _(input_t: Tensor, shape: Shape, index: Any) -> Tensor:
    return place(input_t, shape, index)


class MoveOp(StructuredOp):
    """Copies a tensor to another device; its gradient is copied back."""

    def computes(self, operands: tuple[Any, ...], attributes: tuple[Any, ...]) -> bool:
        """Return False: no single kernel copies between devices, and this op carries the tangents
        itself.
        """
        return False

    def general(
        self, operands: tuple[Any, ...], attributes: tuple[Any, ...], out: GivenOut = None
    ) -> Any:
        (input,) = operands
        device, non_blocking = attributes
        if input._layout.is_sparse:
            return meet_sparse(self.name, operands, attributes, out)
        source, target = backend_of(input._layout.device.type), backend_of(device.type)
        layout, given = input._layout, input._array
        order = walk_order(layout.shape, layout.strides)
        if order is not None:
            given = given.transpose(order)
        if source is target and source.type != "cpu":
            array = target.empty(given.shape, layout.dtype.numpy, device.index)
            target.copy_into(array, given)
        else:
            # On the CPU, from_numpy does not copy: a copy from another device to the CPU is made
            # by to_numpy alone. On all other backends, from_numpy copies.
            late = non_blocking and target.type == "cpu"
            held = source.to_numpy(given, non_blocking=late)
            array = target.from_numpy(held, device.index, non_blocking=non_blocking)
        if order is not None:
            array = array.transpose(undone(order))
        return self.of_copy(input, array, device, non_blocking=non_blocking)

    def of_copy(
        self, input: Tensor, array: Any, device: Device, *, non_blocking: bool = True
    ) -> Tensor:
        """Wrap and record `array`, a copy of input on `device` that the caller has started."""
        result = wrap(array, layout_of(array, device))
        route = Route(self, (device, non_blocking), (input._layout,))
        self.record((result,), (input,), route)
        self.carry_tangents((result,), (input,), route)
        return result


def _move(input: Tensor, device: Device, non_blocking: bool) -> Tensor:
    """Return a copy on another device; with non_blocking, it may complete after the return."""


move = MoveOp(_move, "", linear=True, has_out=False)
move.name = "move"


@move.vjp("input")
def _(g: Tensor, input_layout: Layout) -> Tensor:
    return move.general((g,), (input_layout.device, False))  # type: ignore[no-any-return]


def in_format(input: Tensor, memory_format: MemoryFormat) -> Tensor:
    """Return a copy with its elements in the order of memory_format."""
    if memory_format is preserve_format:
        return clone(input)
    axes = axes_of(memory_format)
    memory_format.require_rank(len(input._layout.shape))
    if axes is None:
        return packed(input)
    back = tuple([axes.index(axis) for axis in range(len(axes))])
    return packed(input.permute(axes)).permute(back)


clone.formatted = in_format


def _quick_contiguous(general: Callable[..., Any]) -> Callable[..., Any]:
    """Return the method `contiguous` with a short path for plain tensors in C order."""

    def quick(input: Tensor, memory_format: MemoryFormat = contiguous_format) -> Any:
        try:
            if memory_format is contiguous_format and input.__class__ in modes.plain:
                return input if input._layout.contiguous else packed(input)
            return general(input, memory_format)
        except Exception as error:
            fold(error)
            raise

    return quick


@before(_quick_contiguous)
@composite(homes="method")
def contiguous(input: Tensor, memory_format: MemoryFormat = contiguous_format) -> Tensor:
    """Return the tensor with its elements in C order, or in the order of memory_format.

    Return the tensor itself if its elements are in that order already, otherwise a copy.

    Raises  RuntimeError if memory_format is channels_last, and the tensor does not have four axes

    Args:
        input: A tensor of any dtype and device.
        memory_format: The order of the elements in memory.

    Example:
        >>> torch.zeros(2, 3).t().contiguous().stride()
        (2, 1)
    """
    if memory_format is contiguous_format:
        return input if input._layout.contiguous else packed(input)
    if input.is_contiguous(memory_format):
        return input
    if memory_format is preserve_format:
        raise RuntimeError(
            "preserve memory format is unsupported by the contiguous operator: clone() keeps the "
            "order of the axes and leaves no gaps"
        )
    return in_format(input, memory_format)


def _quick_to(*args: Any, **named: Any) -> Any:
    """Return a plain tensor cast to another dtype, or the tensor itself if it has that dtype.
    Return NOT_TAKEN if any argument other than one dtype is given.
    """
    if named or len(args) != 2 or args[1].__class__ is not DType or args[0].__class__ not in PLAIN:
        return NOT_TAKEN
    input, dtype = args
    if dtype is input._layout.dtype:
        return input
    return NOT_TAKEN if input._layout.dtype.is_complex else cast(input, dtype)


@composite(homes="method", quick=_quick_to)
def to(
    input: Tensor,
    *args: Any,
    dtype: Any = None,
    device: Any = None,
    non_blocking: bool = False,
    copy: bool = False,
    memory_format: MemoryFormat | None = preserve_format,
) -> Tensor:
    """Return the tensor in another dtype or on another device, or itself if nothing changes.

    Raises  RuntimeError for a device that does not exist, TypeError if a dtype or a device is given
            twice

    Args:
        input: A tensor of any dtype. In an integer dtype, fractions are cut off.
        *args: A dtype, a device, a device and a dtype, or a tensor whose dtype and device are used.
        dtype: The dtype of the result; unchanged if None.
        device: The device of the result; unchanged if None.
        non_blocking: Whether to return before the copy is complete. This applies to copies from
            pinned memory to a GPU, and to copies from a GPU to main memory.
        copy: Whether to copy even if nothing changes.
        memory_format: The order of the elements in memory. A tensor in another order is copied.
            PyTorch makes such a copy only if memory_format is channels_last.

    Example:
        >>> torch.tensor([1, 2]).to(torch.float64)
        tensor([1., 2.], dtype=fastdist.float64)
        >>> torch.ones(2).to("cpu", dtype=torch.int32)
        tensor([1, 1], dtype=fastdist.int32)
    """
    dtype, device, flags = _destination(args, dtype, device)
    copy = copy or (len(flags) > 1 and flags[1])  # two bools are non_blocking and copy
    dtype = None if dtype is None else dtypes.dtype_of(dtype)
    wanted = input._layout.device if device is None else Device.parse(device)
    result = input
    if dtype is not None and dtype is not input._layout.dtype:
        if input._layout.dtype.is_complex and dtype is not dtypes.bool_ and not dtype.is_complex:
            warn_caller("Casting complex values to real discards the imaginary part")
        result = cast(result, dtype)
    if wanted is not result._layout.device:
        non_blocking = bool(non_blocking or (flags and flags[0]))
        result = move.general((result,), (wanted, non_blocking))
    if (
        memory_format is not None
        and memory_format is not preserve_format
        and (copy or not result.is_contiguous(memory_format))
    ):
        return in_format(result, memory_format)
    return clone(result) if copy and result is input else result


def _destination(args: tuple[Any, ...], dtype: Any, device: Any) -> tuple[Any, Any, list[bool]]:
    """Return the dtype, the device and the flags that the arguments of to() give."""
    given, flags = {"dtype": dtype, "device": device}, list[bool]()
    for value in args:
        if isinstance(value, bool):
            flags.append(value)
            continue
        found: dict[str, Any] = {}
        if isinstance(value, Tensor):
            if value is not args[0]:
                raise ArgumentError("to(): give the Tensor to match first, then the flags")
            found = {"dtype": value._layout.dtype, "device": value._layout.device}
        elif value is not None:
            found = {"dtype" if isinstance(value, DType | type) else "device": value}
        for name, one in found.items():
            if given[name] is not None:
                raise ArgumentError(f"to() got two values of {name}: {one} and {given[name]}")
            given[name] = one
    return given["dtype"], given["device"], flags


@composite(homes="method")
def sum_to_size(input: Tensor, *size: Any) -> Tensor:
    """Return the sum of input over the axes along which size would be broadcast to the shape of
    input.

    Raises  RuntimeError if size does not broadcast to input's shape
    """
    target = size[0] if len(size) == 1 and not hasattr(size[0], "__index__") else size
    target = tuple(target)
    shape = input._layout.shape
    if shape == target:
        # As in PyTorch, a 0-d tensor of integers is passed to sum(), which converts it to int64.
        return input if shape or input._layout.dtype.may_have_gradient else input.sum()
    lead = len(shape) - len(target)
    if lead < 0 or any(n not in (1, shape[i + lead]) for i, n in enumerate(target)):
        raise ShapeError(
            f"size {{{short_repr(list(target))}}} is not expandable to size {{{list(shape)}}}."
        )
    axes = axes_to_sum(shape, target)
    result: Tensor = input.sum(axes, keepdim=not lead) if axes else input
    return result.reshape(target) if lead else result
