"""Averages over windows: avg_pool, adaptive_avg_pool, and lp_pool, which averages powers."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, Final, cast

import numpy as np

from ...core.device import CPU
from ...core.dtypes import DType, float32, float64, int64
from ...core.errors import ShapeError
from ...core.folded_frames import fold
from ...dispatch.composite import before, composite
from ...dispatch.declaration import node_named, recorded_as
from ...dispatch.structured import Plan, structured
from ...graph.modes import modes
from ...tensor.layout import Layout
from ...tensor.methods import Number
from ...tensor.tensor import Tensor
from ..channels_last import in_format_of
from ..device_constants import on_device
from .max_pooling import max_pool
from .pool_arguments import Window, adaptive_lengths, require_dtype, windows_of
from .weighted_neighbours import Taps, makes_taps, operands_of, summed, taps_of_ranges, weighed


@makes_taps
def windows(length: int, count: int, kernel: int, stride: int, padding: int) -> Taps:
    """Return the taps that sum the elements in each window."""
    first = np.arange(count) * stride - padding
    return taps_of_ranges(np.maximum(first, 0), np.minimum(first + kernel, length))


@makes_taps
def parts(length: int, count: int) -> Taps:
    """Return the taps that sum each of `count` parts of an axis, of nearly equal sizes."""
    i = np.arange(count)
    return taps_of_ranges(i * length // count, -(-(i + 1) * length // count))


def _average(
    function: str,
    input: Tensor,
    kernel_size: int | Sequence[int],
    stride: Any,
    padding: int | Sequence[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor: int | None,
    axes: int,
) -> Tensor:
    found = windows_of(function, input, kernel_size, stride, padding, 1, ceil_mode, axes)
    if divisor == 0:
        raise ShapeError("divisor must be not zero")
    kernel = "avg_pool3d_out_frame" if axes == 3 else "avg_pool2d"
    require_dtype(kernel, input._layout.dtype, fits=lambda d: d.is_floating_point or d is int64)
    lengths = input._layout.shape[-axes:]
    sums = weighed(input, _recipes(found, lengths))
    by = divisor or _beside(sums, _counts, found, lengths, count_include_pad)
    made = _divided(sums, by)
    return cast(Tensor, made if input._layout.contiguous else in_format_of(input, made))


@functools.lru_cache(maxsize=256)
def _recipes(found: tuple[Window, ...], lengths: tuple[int, ...]) -> tuple[Any, ...]:
    pairs = zip(lengths, found, strict=True)
    return tuple([("windows", n, window.outputs, *window[:3]) for n, window in pairs])


def _beside(sums: Tensor, sizes: Any, *given: Any) -> Any:
    """Return sizes(*given): a number, or a tensor with the device and dtype of sums."""
    found = sizes(*given)
    if not isinstance(found, np.ndarray):
        return found
    return on_device(sums._layout.device, _in_dtype, sums._layout.dtype, sizes, *given)[0]


@functools.lru_cache(maxsize=256)
def _in_dtype(dtype: DType, sizes: Any, *given: Any) -> tuple[Any]:
    return (sizes(*given).astype(dtype.numpy),)


@functools.lru_cache(maxsize=256)
def _counts(found: tuple[Window, ...], lengths: tuple[int, ...], with_padding: bool) -> Any:
    """Return the divisors of the windows' sums, as one number if all are equal."""
    counts: Any = np.ones((), np.int64)
    for length, window in zip(lengths, found, strict=True):
        first = np.arange(window.outputs) * window.stride - window.padding
        end = np.minimum(first + window.kernel, length + window.padding)
        if not with_padding:
            first, end = np.maximum(first, 0), np.minimum(end, length)
        counts = counts[..., None] * (end - first)
    return int(counts.flat[0]) if (counts == counts.flat[0]).all() else counts


def _divided(sums: Tensor, by: Tensor | complex) -> Any:
    if sums._layout.dtype is int64:
        return sums.div(by, rounding_mode="trunc")
    return sums if by.__class__ is int and by == 1 else sums / by


@structured(
    "nn.averages.average",
    linear=True,
    has_out=False,
    fresh=True,
    homes="function functional",
    batch="first axis",
    piecewise=True,
    node="squeeze.1",
)
def avg_pool1d(
    input: Tensor,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """Return the averages of windows along the last axis.

    Shape   (..., channels, n) -> (..., channels, windows)
    """


@avg_pool1d.plan
def _(
    input: Tensor,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int],
    padding: int | Sequence[int],
    ceil_mode: bool,
    count_include_pad: bool,
) -> Plan:
    shape, dtype = input._layout.shape, input._layout.dtype
    if len(shape) not in (2, 3):
        raise ShapeError(
            f"Expected 2 to 3 dimensions, but got {len(shape)}-dimensional tensor for argument #1 "
            "'self' (while checking arguments for avg_pool1d)"
        )
    (window,) = windows_of("avg_pool1d", input, kernel_size, stride, padding, 1, ceil_mode, 1)
    require_dtype("avg_pool2d", dtype, fits=lambda d: d.is_floating_point or d is int64)
    return Plan((*shape[:-1], window.outputs), dtype, (window[:3], count_include_pad))


@avg_pool1d.vjp("input")
def _(g: Tensor, input_layout: Layout, ceil_mode: bool, plan: Plan) -> Any:
    window, whole = plan.numbers
    return averages_back(g, input_layout.shape[-1], window, ceil_mode, whole)


@structured(
    "nn.averages.spread",
    linear=True,
    fresh=True,
    homes="nowhere",
    batch="first axis",
    known_as="avg_pool2d_backward",
)
def averages_back(input: Tensor, length: int, window: Any, ceil_mode: bool, whole: bool) -> Tensor:
    """Apply the adjoint of avg_pool1d to input, and return rows with `length` elements."""


@averages_back.plan
def _(input: Tensor, length: int, window: Tensor, ceil_mode: bool, whole: bool) -> Plan:
    return Plan((*input._layout.shape[:-1], length), input._layout.dtype, (window, whole))


@averages_back.vjp("input")
def _(g: Tensor, window: Tensor, ceil_mode: bool, whole: bool) -> Any:
    return avg_pool1d.public(g, *window, ceil_mode, whole)


_WORDS: Final = frozenset({int, bool, type(None)})
_BY_COMPOSITE: Final[Any] = object()
# Above this number of elements, a kernel with threads divides faster than NumPy.
_FEW: Final = 4096


def _again(name: str, axes: int) -> Callable[[Any], Any]:
    """Return a decorator, used with `before`, that pools plain CPU tensors without the checks that
    a call with the same layout and arguments has passed.
    """
    node = node_named(name)

    def decorate(general: Any) -> Any:
        def pool(*args: Any, **named: Any) -> Any:
            try:
                words = args[1:]
                if named or not words or args[0].__class__ not in modes.plain:
                    return general(*args, **named)
                if not _WORDS.issuperset(map(type, words)):
                    return general(*args)
                input, key = args[0], (general, *words, *map(type, words))
                if input._layout.is_sparse:
                    return general(*args)
                found = input._layout.routes.get(key)
                if found is None:
                    result = general(*args)
                    input._layout.routes.remember(key, _prepared(name, axes, *args))
                    return result
                if found is _BY_COMPOSITE:
                    return general(*args)
                table, weights, recipes, count = found
                sums = summed(input, table, weights, recipes, False)
                if sums._edge is None and sums._layout.numel <= _FEW:
                    np.divide(sums._array, count, sums._array)  # nothing else refers to the sums
                    return sums
                out = sums / count
                out._edge._called = node
                return out
            except Exception as error:
                fold(error)
                raise

        return pool

    return decorate


def _prepared(
    name: str,
    axes: int,
    input: Tensor,
    kernel_size: int,
    stride: int | None = None,
    padding: int = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:
    """Return the operands of `summed` and the divisor; _BY_COMPOSITE if windows have different
    divisors, or if the result needs more than a division.
    """
    layout = input._layout
    if layout.device is not CPU or layout.dtype not in (float32, float64) or not layout.contiguous:
        return _BY_COMPOSITE
    found = windows_of(name, input, kernel_size, stride, padding, 1, ceil_mode, axes)
    lengths = layout.shape[-axes:]
    count = divisor_override or _counts(found, lengths, count_include_pad)
    if count.__class__ is not int or count == 1:
        return _BY_COMPOSITE
    return *operands_of(input, _recipes(found, lengths)), count


@before(_again("avg_pool2d", 2))
@composite(homes="functional", out="same", node="avg_pool2d")
def avg_pool2d(
    input: Tensor,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """Return the averages of windows over the last two axes. If divisor_override is given, the
    sums of windows are divided by divisor_override, and not by the number of elements.

    Raises  RuntimeError if the padding is more than half the kernel, or input has neither 3 nor 4
            axes

    Args:
        input: Images of shape (n, c, height, width) or (c, height, width).
        kernel_size: The height and width of a window, or one number for both.
        stride: The distance between neighbouring windows; kernel_size if None.
        padding: The number of zeros added at each end of an axis.
        ceil_mode: Whether to include windows that begin inside of the image but end outside.
        count_include_pad: Whether added zeros count as elements of a window.
        divisor_override: The divisor of sums; the number of elements if None.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> F.avg_pool2d(torch.ones(1, 1, 4, 4), 2).shape
        fastdist.Size([1, 1, 2, 2])
    """
    return _average(
        "avg_pool2d",
        input,
        kernel_size,
        stride,
        padding,
        ceil_mode,
        count_include_pad,
        divisor_override,
        2,
    )


@before(_again("avg_pool3d", 3))
@composite(homes="functional", out="same", node="avg_pool3d")
def avg_pool3d(
    input: Tensor,
    kernel_size: int | Sequence[int],
    stride: Any = None,
    padding: int | Sequence[int] = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """Return the averages of windows over the last three axes. If divisor_override is given, the
    sums of windows are divided by divisor_override, and not by the number of elements.
    """
    return _average(
        "avg_pool3d",
        input,
        kernel_size,
        stride,
        padding,
        ceil_mode,
        count_include_pad,
        divisor_override,
        3,
    )


def adaptive_average(function: str, input: Tensor, output_size: Any, axes: int) -> Tensor:
    """Divide the last `axes` axes into output_size parts, and return the average of each part."""
    lengths = adaptive_lengths(function, input, output_size, axes, channels=False)
    kernel = "adaptive_avg_pool3d_cpu" if axes == 3 else "adaptive_avg_pool2d"
    if set(lengths) == {1} and input._layout.dtype.is_complex:
        return input.mean(tuple(range(-axes, 0)), keepdim=True)
    require_dtype(kernel, input._layout.dtype, fits=lambda d: d.is_floating_point)
    if set(lengths) == {1}:
        return input.mean(tuple(range(-axes, 0)), keepdim=True)
    before = input._layout.shape[-axes:]
    recipes = [("parts", n, m) for n, m in zip(before, lengths, strict=True)]
    sums = weighed(input, recipes)
    found = cast(Tensor, _divided(sums, _beside(sums, _part_sizes, before, lengths)))
    if not input._layout.contiguous:
        in_format_of(input, found)
    return recorded_as(_NODES[axes], found, ())


# PyTorch's names of the Nodes of adaptive_avg_pool, by the number of averaged axes.
_NODES = {
    1: "SqueezeBackward1",
    2: "AdaptiveAvgPool2DBackward0",
    3: "AdaptiveAvgPool3DBackward0",
}


@functools.lru_cache(maxsize=256)
def _part_sizes(lengths: tuple[int, ...], counts: tuple[int, ...]) -> Any:
    sizes: Any = np.ones((), np.int64)
    for length, count in zip(lengths, counts, strict=True):
        sizes = sizes[..., None] * np.diff(parts(length, count).starts)
    return int(sizes.flat[0]) if sizes.size and (sizes == sizes.flat[0]).all() else sizes


@composite(homes="function functional", node="squeeze.1")
def adaptive_avg_pool1d(input: Tensor, output_size: int | Sequence[int | None]) -> Tensor:
    """Divide the last axis into output_size parts of nearly equal size, and average each part."""
    return adaptive_average("adaptive_avg_pool1d", input, output_size, 1)


@composite(homes="functional")
def adaptive_avg_pool2d(input: Tensor, output_size: int | Sequence[int | None]) -> Tensor:
    """Divide each of the last two axes into output_size parts of nearly equal size, and return the
    averages of the resulting blocks.
    """
    return adaptive_average("adaptive_avg_pool2d", input, output_size, 2)


@composite(homes="functional")
def adaptive_avg_pool3d(input: Tensor, output_size: int | Sequence[int]) -> Tensor:
    """Divide each of the last three axes into output_size parts of nearly equal size, and return
    the averages of the resulting blocks.
    """
    return adaptive_average("adaptive_avg_pool3d", input, output_size, 3)


def _power_mean(
    input: Tensor,
    norm_type: Any,
    kernel_size: int | Sequence[int],
    stride: Any,
    ceil_mode: bool,
    axes: int,
) -> Tensor:
    if norm_type in (math.inf, -math.inf):
        sign = 1 if norm_type > 0 else -1
        signed = input.abs() * sign
        most: Tensor = max_pool(signed, kernel_size, stride, 0, 1, ceil_mode, axes, axes > 1)[0]
        return most * sign
    function = f"avg_pool{axes}d"
    powers = input**norm_type
    sums: Tensor = _average(function, powers, kernel_size, stride, 0, ceil_mode, True, None, axes)
    given = kernel_size if isinstance(kernel_size, tuple | list) else (kernel_size,) * axes
    # This is PyTorch's formula. Where a sum is 0, the gradient of this formula is 0, not NaN.
    totals = sums.sign() * sums.abs().relu() * math.prod(given)
    found: Tensor = totals ** (1.0 / norm_type)
    return found


@composite(homes="functional", known_as="")
def lp_pool1d(
    input: Tensor,
    norm_type: Number,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """Return (sum of input**norm_type)**(1 / norm_type) over windows along the last axis."""
    return _power_mean(input, norm_type, kernel_size, stride, ceil_mode, 1)


@composite(homes="functional", known_as="")
def lp_pool2d(
    input: Tensor, norm_type: Any, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Tensor:
    """Return (sum of input**norm_type)**(1 / norm_type) over windows of the last two axes."""
    return _power_mean(input, norm_type, kernel_size, stride, ceil_mode, 2)


@composite(homes="functional", known_as="")
def lp_pool3d(
    input: Tensor, norm_type: Any, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Tensor:
    """Return (sum of input**norm_type)**(1 / norm_type) over windows of the last three axes."""
    return _power_mean(input, norm_type, kernel_size, stride, ceil_mode, 3)
