"""Casts under PyTorch's names, and comparisons of whole tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...core import dtypes
from ...core.device import CPU
from ...core.dtypes import WORDS, DType
from ...core.errors import DTypeError
from ...core.folded_frames import fold
from ...core.memory_format import MemoryFormat, preserve_format
from ...core.short_repr import short_repr
from ...core.torch_function import NOT_TAKEN
from ...dispatch.composite import before, composite
from ...dispatch.op import PLAIN
from ...graph.modes import modes
from ...tensor.methods import DeviceLike
from ...tensor.promotion import can_cast, result_dtype
from ...tensor.tensor import Tensor
from .copying import to

_CAST = """Return the tensor in {dtype}; itself if its dtype and layout are these already.

Args:
    memory_format: The order of the elements in memory.

Example:
    >>> torch.ones(1, dtype=torch.int16).{name}().dtype
    fastdist.{dtype}
"""


def _cast_to(name: str, dtype: DType) -> None:
    """Declare the method `name`, which casts a tensor to `dtype`."""

    def cast(input: Tensor, memory_format: MemoryFormat | None = preserve_format) -> Tensor:
        if memory_format is None or memory_format is preserve_format:
            return to(input, dtype)  # no keyword: parsing one would take measurable time
        return to(input, dtype, memory_format=memory_format)

    cast.__name__ = cast.__qualname__ = name
    cast.__doc__ = _CAST.format(name=name, dtype=dtype.name)

    def quick(input: Tensor, memory_format: MemoryFormat | None) -> Any:
        return to(input, dtype) if memory_format is preserve_format else NOT_TAKEN

    def itself(general: Callable[..., Any]) -> Callable[..., Any]:
        def method(input: Tensor, memory_format: MemoryFormat | None = preserve_format) -> Any:
            if (
                input.__class__ in modes.plain
                and input._layout.dtype is dtype
                and memory_format is preserve_format
            ):
                return input  # the usual case: input already has this dtype
            try:
                return general(input, memory_format)
            except Exception as error:
                fold(error)
                raise

        return method

    before(itself)(composite(homes="method", known_as="", quick=quick)(cast))


for _dtype, _word in WORDS.items():
    if not _dtype.is_bare:
        _cast_to(_word.lower().replace("complex", "c"), _dtype)


@composite(homes="method")
def type_as(input: Tensor, other: Tensor) -> Tensor:
    """Return input in the dtype of other.

    Raises  TypeError if other is not a tensor

    Args:
        input: A tensor of any shape and dtype. From floating-point to integers, fractions are cut
            off.
        other: The tensor whose dtype is used.

    Example:
        >>> torch.tensor([1, 2]).type_as(torch.zeros(1, dtype=torch.float64))
        tensor([1., 2.], dtype=fastdist.float64)
    """
    return to(input, other._layout.dtype)


@composite(name="type", homes="method", known_as="")
def type_(
    input: Tensor,
    dtype: DType | str | None = None,
    non_blocking: bool = False,
    memory_format: MemoryFormat | None = preserve_format,
) -> Any:
    """Return the tensor cast to dtype, or input itself if it has that dtype. Without dtype, return
    the name of the tensor's type as a string, such as "fastdist.FloatTensor".
    """
    device = input._layout.device
    if dtype is None:
        place = "" if device is CPU else f"{device.type}."
        place += "sparse." if input._layout.is_sparse else ""
        return f"fastdist.{place}{WORDS[input._layout.dtype]}Tensor"
    if isinstance(dtype, str):
        name = dtype.rpartition(".")[2]
        known = {f"{word}Tensor": one for one, word in WORDS.items()}
        if name not in known:
            raise ValueError(f"invalid type: {short_repr(dtype)}; known are {', '.join(known)}")
        dtype = known[name]
    made = getattr(dtype, "dtype", None) if isinstance(dtype, type) else None
    # A class such as LongTensor is replaced by the dtype in its attribute `dtype`.
    return to(input, made if isinstance(made, DType) else dtype, memory_format=memory_format)


def _quick_cpu(general: Callable[..., Any]) -> Callable[..., Any]:
    """Return the method `cpu` with a short path for plain tensors that are in main memory."""

    def quick(input: Tensor, memory_format: MemoryFormat | None = preserve_format) -> Any:
        if (
            input.__class__ in modes.plain
            and input._layout.device is CPU
            and memory_format is preserve_format
        ):
            return input
        try:
            return general(input, memory_format)
        except Exception as error:
            fold(error)
            raise

    return quick


@before(_quick_cpu)
@composite(homes="method", known_as="")
def cpu(input: Tensor, memory_format: MemoryFormat | None = preserve_format) -> Tensor:
    """Return the tensor in main memory.

    Args:
        input: A tensor on any device.
        memory_format: The order of the elements in memory.

    Returns:
        The tensor itself if it is in main memory in that order, otherwise a copy. Gradients pass
        through the copy.

    Example:
        >>> torch.ones(2).cpu().device
        device(type='cpu')
    """
    if memory_format is None or memory_format is preserve_format:
        return to(input, CPU)
    return to(input, CPU, memory_format=memory_format)


@composite(homes="method", known_as="")
def cuda(
    input: Tensor,
    device: DeviceLike = None,
    non_blocking: bool = False,
    memory_format: MemoryFormat | None = preserve_format,
) -> Tensor:
    """Return a copy of the tensor on a GPU. If the tensor is already on that GPU in the order of
    memory_format, return the tensor itself.

    Raises  DeviceError if there is no GPU

    Args:
        input: A tensor on any device.
        device: The GPU, as a number or a name such as "cuda:0"; the current GPU if None.
        non_blocking: Whether to return before the copy is complete.
        memory_format: The order of the elements in memory.

    Example:
        >>> x = torch.ones(2)
        >>> if torch.cuda.is_available():
        ...     x = x.cuda()
    """
    if device is None:
        device = "cuda"
    place = f"cuda:{device}" if isinstance(device, int) else device
    return to(input, device=place, non_blocking=non_blocking, memory_format=memory_format)


def _values(input: Tensor) -> np.ndarray[Any, Any]:
    return input.to_numpy()


def _equal_at_once(input: Tensor, other: Tensor) -> Any:
    """Return the result for plain tensors of one dtype on the CPU, otherwise NOT_TAKEN."""
    if input.__class__ not in PLAIN or other.__class__ not in PLAIN:
        return NOT_TAKEN
    layout, found = input._layout, other._layout
    if layout is not found and (
        layout.shape != found.shape or layout.dtype is not found.dtype or found.device is not CPU
    ):
        return NOT_TAKEN
    if layout.device is not CPU or layout.is_sparse or found.is_sparse or not layout.shape:
        return NOT_TAKEN
    differs = input._array != other._array
    # argmax and item take a fifth of the time of ndarray.any, which is a Python function.
    return not (layout.numel and differs.item(differs.argmax()))


@composite(quick=_equal_at_once)
def equal(input: Tensor, other: Tensor) -> bool:
    """Return whether shapes and all elements are equal, as a Python bool; NaN is not equal to NaN.

    Raises  TypeError if other is not a tensor

    Args:
        input: A tensor of any shape and dtype. Numbers of different dtypes are compared by value;
            shapes do not broadcast.
        other: The tensor to compare with.

    Example:
        >>> torch.equal(torch.tensor([1, 2]), torch.tensor([1, 2]))
        True
    """
    if not isinstance(other, Tensor):
        raise TypeError(f"equal(): expected a Tensor, got {type(other).__name__}")
    if input._layout.shape != other._layout.shape:
        return False
    return bool(np.array_equal(_values(input), _values(other)))


def _require_same_dtype(name: str, input: Tensor, other: Tensor) -> None:
    if input._layout.dtype is not other._layout.dtype:
        raise DTypeError(
            f"{name}: {input._layout.dtype.name} did not match {other._layout.dtype.name}"
        )


@composite()
def isclose(
    input: Tensor,
    other: Tensor,
    rtol: float = 1e-5,
    atol: float = 1e-8,
    equal_nan: bool = False,
) -> Tensor:
    """Return whether |input - other| <= atol + rtol * |other|, element by element.

    Raises  RuntimeError if the dtypes differ, or the shapes do not broadcast

    Args:
        input: A tensor of any dtype. An infinity is close only to itself.
        other: The tensor to compare with.
        rtol: The tolerance relative to |other|, so input and other are not interchangeable; not
            negative.
        atol: The absolute tolerance, which matters near 0; not negative.
        equal_nan: Whether NaN is close to NaN.

    Returns:
        A tensor of bool.

    Example:
        >>> torch.isclose(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.1]))
        tensor([ True, False])
    """
    _require_same_dtype("isclose", input, other)
    for name, bound in (("rtol", rtol), ("atol", atol)):
        if bound < 0:
            raise RuntimeError(f"{name} must be greater than or equal to zero, but got {bound}")
    rtol, atol = float(rtol), float(atol)  # float() also takes integers too large for int64
    near: Any = input == other
    if equal_nan and input._layout.dtype.may_have_gradient:
        near = near.logical_or(input.isnan().logical_and(other.isnan()))
    if rtol == 0 and atol == 0:
        return near  # type: ignore[no-any-return]
    wide = [
        one if one._layout.dtype.may_have_gradient else to(one, dtypes.float64)
        for one in (input, other)
    ]
    a: Any = wide[0].detach()
    b: Any = wide[1].detach()
    close = (a - b).abs() <= atol + rtol * b.abs()
    return near.logical_or((a - b).isfinite().logical_and(close))  # type: ignore[no-any-return]


@composite()
def allclose(
    input: Tensor,
    other: Tensor,
    rtol: float = 1e-5,
    atol: float = 1e-8,
    equal_nan: bool = False,
) -> bool:
    """Return whether |input - other| <= atol + rtol * |other| for all elements, as a Python bool.

    Raises  RuntimeError if the dtypes differ, or the shapes do not broadcast

    Args:
        input: A tensor of any dtype. Without elements the result is True.
        other: The tensor to compare with.
        rtol: The tolerance relative to |other|, so input and other are not interchangeable; not
            negative.
        atol: The absolute tolerance, which matters near 0; not negative.
        equal_nan: Whether NaN is close to NaN.

    Example:
        >>> torch.allclose(torch.tensor([1.0]), torch.tensor([1.0 + 1e-7]))
        True
    """
    return bool(isclose(input, other, rtol, atol, equal_nan).all())


@composite(name="result_type", homes="function", known_as="")
def result_type(tensor1: Any, tensor2: Any) -> DType:
    """Return the dtype to which two tensors or numbers promote."""
    return result_dtype([tensor1, tensor2])


@composite(name="promote_types", homes="function", known_as="")
def promote_types(type1: DType, type2: DType) -> DType:
    """Return the dtype to which tensors of two dtypes promote.

    Args:
        type1: The first dtype.
        type2: The second dtype.

    Example:
        >>> torch.promote_types(torch.int32, torch.float32)
        fastdist.float32
    """
    return dtypes.promote(type1, type2)


@composite(name="can_cast", homes="function", known_as="")
def can_cast_types(from_: DType, to: DType) -> bool:
    """Return whether results of dtype `from_` may be stored in a tensor of dtype `to`."""
    return can_cast(from_, to)


@composite(homes="function")
def is_tensor(obj: Any) -> bool:
    """Return whether obj is a Tensor.

    Args:
        obj: Any object.

    Example:
        >>> torch.is_tensor(torch.ones(1)), torch.is_tensor([1.0])
        (True, False)
    """
    return isinstance(obj, Tensor)


@composite(homes="function")
def is_floating_point(input: Tensor) -> bool:
    """Return whether the dtype of input is floating.

    Raises  TypeError if input is not a tensor

    Args:
        input: A tensor. float16 and bfloat16 are floating; complex dtypes are not.

    Example:
        >>> torch.is_floating_point(torch.ones(1))
        True
    """
    return input._layout.dtype.is_floating_point


@composite(homes="function")
def is_complex(input: Tensor) -> bool:
    """Return whether the dtype of input is complex."""
    return input._layout.dtype.is_complex


@composite(homes="function")
def is_signed(input: Tensor) -> bool:
    """Return whether the dtype of input can represent negative numbers."""
    return input._layout.dtype.is_signed


@composite()
def is_nonzero(input: Tensor) -> bool:
    """Return whether the only element of input is not 0.

    Raises  RuntimeError if input does not have exactly one element
    """
    return bool(input)


@composite()
def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Return whether the shapes are equal."""
    return input._layout.shape == other._layout.shape


@composite(homes="function", known_as="")
def numel(input: Tensor) -> int:
    """Return the number of elements."""
    return input._layout.numel
