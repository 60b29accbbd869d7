"""The arguments of pooling functions: kernels, strides, paddings, and the resulting lengths."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ...core.dtypes import WORDS, DType
from ...core.errors import DTypeError, ShapeError
from ...core.short_repr import short_repr
from ...dispatch.signature import ArgumentError
from ...tensor.layout import Shape
from ...tensor.tensor import Tensor

_COUNTS = {1: "one int", 2: "two ints", 3: "three ints"}
_LETTERS = {1: "W", 2: "HW", 3: "THW"}


class Window(NamedTuple):
    """The windows along one axis. Their number is the number of outputs, `outputs`."""

    kernel: int
    stride: int
    padding: int
    dilation: int
    outputs: int


def numbers(function: str, name: str, given: Any, axes: int) -> tuple[int, ...]:
    """Return an int for each spatial axis, from one int or a sequence of ints.

    Raises  TypeError for a value that is not an int, RuntimeError for a wrong number of ints
    """
    several = given if isinstance(given, tuple | list) else (given,)
    for one in several:
        if not hasattr(one, "__index__") or isinstance(one, bool):
            what = type(one).__name__
            found = f"found element of type {what}" if several is given else f"not {what}"
            raise ArgumentError(f"{function}(): argument '{name}' must be tuple of ints, {found}")
    if len(several) not in (1, axes):
        raise ShapeError(_wrong_count(function, name, len(several), axes))
    ints = tuple([one.__index__() for one in several])
    return ints * axes if len(ints) == 1 else ints


def _wrong_count(function: str, name: str, given: int, axes: int) -> str:
    """Return PyTorch's error text for a wrong number of ints. Each function has its own text."""
    got = f"; got {given} ints"
    omitted = {"stride": "omitted, "}.get(name, "")
    if function == "max_pool1d":
        what = {"stride": "None, an int, list of ints, or tuple of ints"}.get(name)
        what = what or {"padding": "an int, list of ints, or tuple of ints"}.get(name)
        what = what or "an int, list of ints or tuple of ints"
        return f"max_pool1d() {name} must be {what} of size 1 but got size {given}"
    if axes == 1:
        return f"{function}() argument '{name}' should contain one int (got {given})"
    if function.startswith("adaptive_avg"):
        return f"{function}: {name} must be {axes}{got}"
    if function.startswith("adaptive_max"):
        return f"{function}(): internal error: {name}.size() must be {axes}{got}"
    if name == "dilation":
        return f"{function}: dilation must be either a single int, or a tuple of {_COUNTS[axes]}"
    either = "" if function == "avg_pool3d" else "either "
    return (
        f"{function}: {name} must {either}be {omitted}a single int, or a tuple of {_COUNTS[axes]}"
    )


def require_dtype(kernel: str, dtype: DType, *, fits: Callable[[DType], bool]) -> None:
    """Raise NotImplementedError, with PyTorch's message, for a dtype that PyTorch's kernel does
    not support.
    """
    if not fits(dtype):
        raise NotImplementedDType(f'"{kernel}" not implemented for {WORDS[dtype]!r}')


class NotImplementedDType(DTypeError, NotImplementedError):
    """The error for a dtype that PyTorch's kernel does not support. This class is derived from
    NotImplementedError, as in PyTorch, and from TypeError.
    """


def windows_of(
    function: str,
    input: Tensor,
    kernel_size: int | Sequence[int] | None,
    stride: int | Sequence[int] | None,
    padding: int | Sequence[int] | None,
    dilation: int | Sequence[int] | None,
    ceil_mode: bool,
    axes: int,
) -> tuple[Window, ...]:
    """Return the windows along the last axes of input.

    Raises  RuntimeError for arguments and shapes without any window
    """
    given = kernel_size, stride, padding, dilation
    for one in given:
        if not (one is None or one.__class__ is int or are_ints(one)):
            return _windows_of(function, input._layout.shape, *given, ceil_mode, axes)
    return _known_windows(function, input._layout.shape, *given, bool(ceil_mode), axes)


def are_ints(given: Any) -> bool:
    """Return whether `given` is a tuple of elements whose class is exactly int. In a cache key,
    an element of another class, such as True or 1.0, would equal an int.
    """
    return given.__class__ is tuple and all(one.__class__ is int for one in given)


def _windows_of(
    function: str,
    shape: Shape,
    kernel_size: int | Sequence[int] | None,
    stride: int | Sequence[int] | None,
    padding: int | Sequence[int] | None,
    dilation: int | Sequence[int] | None,
    ceil_mode: bool,
    axes: int,
) -> tuple[Window, ...]:
    kernel = numbers(function, "kernel_size", kernel_size, axes)
    steps = kernel
    if stride is not None and not (isinstance(stride, tuple | list) and not stride):
        steps = numbers(function, "stride", stride, axes)
    pads = numbers(function, "padding", padding, axes)
    spread = numbers(function, "dilation", dilation, axes)
    space = _space(function, shape, axes)
    _require_positive(function, kernel, steps, spread)
    found = []
    for length, k, s, p, d in zip(space, kernel, steps, pads, spread, strict=True):
        _require_padding(function, k, p, d)
        found.append(Window(k, s, p, d, _count(length, k, s, p, d, ceil_mode)))
    _require_windows(function, shape, space, found)
    return tuple(found)


# Cached, because layers use the same windows at each step, and computing the windows takes longer
# than a small kernel.
_known_windows = functools.lru_cache(maxsize=256)(_windows_of)


def _space(function: str, shape: Shape, axes: int) -> Shape:
    """Return the lengths of the spatial axes."""
    low = axes + 1
    if len(shape) not in (low, low + 1) or 0 in shape[len(shape) - low :]:
        if function == "max_pool1d":
            start = f"{function}: "
        else:
            start = "" if function.endswith("2d") else "non-empty "
        raise ShapeError(
            f"{start}Expected {low}D or {low + 1}D (batch mode) tensor with optional 0 dim batch "
            f"size for input, but got:{list(shape)}"
        )
    return shape[-axes:]


def _require_positive(function: str, kernel: Any, stride: Any, dilation: Any) -> None:
    given = {"kernel_size": kernel, "stride": stride, "dilation": dilation}
    for name, ints in given.items():
        if min(ints) > 0:
            continue
        if function == "max_pool1d":
            raise ShapeError(f"max_pool1d() {name} must be greater than zero, but got {ints[0]}")
        if name != "dilation" and 0 in ints and min(*kernel, *stride) == 0:
            raise ShapeError(
                f"stride should not be zero: {function} got kernel_size "
                f"{short_repr(kernel)}, stride {short_repr(stride)}"
            )
        short = {"kernel_size": "k", "stride": "d", "dilation": "dilation"}[name]
        letters = _LETTERS[len(ints)]
        pairs = zip(letters, map(short_repr, ints), strict=True)
        shown = " ".join([f"{short}{letter}: {number}" for letter, number in pairs])
        word = name.removesuffix("_size") + (" size" if name == "kernel_size" else "")
        raise ShapeError(f"{word} should be greater than zero, but got {shown}")


def _require_padding(function: str, kernel: int, padding: int, dilation: int) -> None:
    if function == "max_pool1d":
        if padding < 0:
            raise ShapeError(f"max_pool1d() padding must be non-negative, but got {padding}")
        if 2 * padding > kernel:
            raise ShapeError(
                "max_pool1d() padding should be at most half of kernel size, but got "
                f"padding={padding} and kernel_size={kernel}"
            )
    if padding < 0:
        raise ShapeError(f"pad must be non-negative, but got pad: {padding}")
    if padding > ((kernel - 1) * dilation + 1) // 2:
        raise ShapeError(
            "pad should be at most half of effective kernel size, but got "
            f"pad={padding}, kernel_size={kernel} and dilation={dilation}"
        )


def _count(length: int, kernel: int, stride: int, padding: int, dilation: int, ceil: bool) -> int:
    room = length + 2 * padding - dilation * (kernel - 1) - 1
    count = -(-room // stride) + 1 if ceil else room // stride + 1
    # A window that would begin in the padding on the right is dropped.
    return count - 1 if ceil and (count - 1) * stride >= length + padding else count


def _require_windows(function: str, shape: Shape, space: Shape, found: list[Window]) -> None:
    kernel = tuple([window.kernel for window in found])
    # Only avg_pool3d requires that a window fits into the image without padding.
    if function == "avg_pool3d" and any(n < k for n, k in zip(space, kernel, strict=True)):
        pairs = [zip("THW", sizes, strict=True) for sizes in (space, kernel)]
        image = " ".join([f"{letter}: {n}" for letter, n in pairs[0]])
        windows = " ".join([f"k{letter}: {n}" for letter, n in pairs[1]])
        raise ShapeError(f"input image ({image}) smaller than kernel size ({windows})")
    counts = tuple([window.outputs for window in found])
    if min(counts) > 0:
        return
    if function == "max_pool1d":
        raise ShapeError(
            f"max_pool1d() Invalid computed output size: {counts[0]}: input is {shape}"
        )
    planes = shape[-len(space) - 1]
    lengths, results = (1, *space)[-max(len(space), 2) :], (1, *counts)[-max(len(space), 2) :]
    shown = ["x".join(map(str, (planes, *part))) for part in (lengths, results)]
    raise ShapeError(
        f"Given input size: ({shown[0]}). Calculated output size: ({shown[1]}). Output size is too "
        "small"
    )


def adaptive_lengths(
    function: str, input: Tensor, output_size: Any, axes: int, *, channels: bool
) -> tuple[int, ...]:
    """Return the lengths of adaptive pooling's output. None in output_size keeps an axis's length.

    Raises  RuntimeError for a wrong number of axes or lengths
    """
    shape = input._layout.shape
    low = axes + 1
    if len(shape) not in (low, low + 1):
        if axes == 1:
            raise ShapeError(
                f"Expected 2 to 3 dimensions, but got {len(shape)}-dimensional tensor for argument "
                f"#1 'self' (while checking arguments for {function})"
            )
        colon = ":" if channels else ""
        raise ShapeError(
            f"{function}(): Expected {low}D or {low + 1}D tensor, but got{colon} {list(shape)}"
        )
    first = len(shape) - axes - (1 if channels and len(shape) > low else 0)
    for axis in range(max(first, len(shape) - low) if channels else len(shape) - axes, len(shape)):
        if shape[axis] == 0:
            raise ShapeError(
                f"{function}(): Expected input to have non-zero size for non-batch dimensions, but "
                f"input has sizes {list(shape)} with dimension {axis} being empty"
            )
    given = output_size
    if axes > 1:
        several = list(given) if isinstance(given, tuple | list) else [given] * axes
        if len(several) != axes:
            raise ShapeError(_wrong_count(function, "output_size", len(several), axes))
        given = tuple([n if m is None else m for n, m in zip(shape[-axes:], several, strict=True)])
    lengths = numbers(function, "output_size", given, axes)
    if min(lengths) < 0:
        raise ShapeError(
            f"Trying to create tensor with negative dimension {min(lengths)}: "
            f"{[*shape[:-axes], *lengths]}"
            if channels
            else f"{function}: elements of output_size must be greater than or equal to 0 but "
            f"received {{{', '.join(map(str, lengths))}}}"
        )
    return lengths
