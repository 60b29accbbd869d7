"""Layer, group, RMS and local response normalisation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...core.dtypes import float_limits, real_of
from ...core.errors import ShapeError
from ...core.sequences import all_of
from ...core.short_repr import short_repr
from ...core.torch_function import NOT_TAKEN
from ...dispatch.composite import COMPOSITES, composite
from ...dispatch.op import PLAIN, Op
from ...dispatch.structured import Plan, structured
from ...graph.modes import may_be_differentiated, tls
from ...interpreters.batched_tensor import batched, levels, value_at
from ...tensor.layout import Shape, count_elements
from ...tensor.tensor import Tensor
from ..channels_last import copied_in_format
from ..reduce.row_slopes import may_fuse
from ..refusals import require_dtype_of_norm
from ..unrecorded_rows import may_reshape, reshape_result, reshaped_operand
from .batch_norm import require_channeled, scale_channels
from .channel_norms import groups_or_none
from .norm_slopes import layer_norm_slope, rms_norm_slope


@structured(
    "nn.normalization.layer_norm",
    kernel_gradients=True,
    fresh=True,
    homes="nowhere",
    known_as="native_layer_norm",
)
def layer_norm_rows(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return (row - mean) / deviation * weight + bias for each row of a matrix."""


@layer_norm_rows.plan
def _(input: Tensor, weight: Tensor, bias: Tensor | None, eps: float) -> Plan:
    shape, dtype = input._layout.shape, input._layout.dtype
    row = ((shape[0], 1), dtype.computes_in)
    return Plan(shape, dtype, (eps,), extra_outputs=(row, row))


def _normal(input: Tensor, eps: float) -> Any:
    """Return the normalized rows, computed by ops that can be differentiated again."""
    away = input - input.mean(1, True)
    return away * ((away * away).mean(1, True) + eps).rsqrt()


@layer_norm_rows.vjp("input", "weight", "bias")
def _(
    g: Tensor,
    input: Tensor,
    weight: Tensor | None,
    eps: float,
    others: tuple[Tensor, ...],
    wanted: Sequence[bool],
) -> Any:
    by_input = by_weight = None
    by_bias = g.sum(0) if wanted[2] else None
    if not may_be_differentiated():
        if wanted[0]:
            by_input = layer_norm_gradient(g, input, weight, *others)
        if wanted[1]:
            mean, deviation = others
            by_weight = (g * ((input - mean) / deviation)).sum(0)
        return by_input, by_weight, by_bias
    if wanted[0] and may_fuse(input, g, weight):
        by_input = layer_norm_slope.public(g, input, weight, *others, eps)
    if wanted[1] or (wanted[0] and by_input is None):
        away = input - input.mean(1, True)
        scale = ((away * away).mean(1, True) + eps).rsqrt()
        normal = away * scale
        if wanted[0] and by_input is None:
            by_input = _slope(g if weight is None else g * weight, normal, scale)
        if wanted[1]:
            by_weight = (g * normal).sum(0)
    return by_input, by_weight, by_bias


def _slope(g: Tensor, normal: Tensor, scale: Tensor) -> Any:
    return (g - g.mean(1, True) - normal * (g * normal).mean(1, True)) * scale


@layer_norm_rows.jvp
def _(
    input: Tensor,
    input_t: Tensor | None,
    weight: Tensor | None,
    weight_t: Tensor | None,
    bias_t: Tensor | None,
    eps: float,
) -> Any:
    total = None
    if input_t is not None:
        away = input - input.mean(1, True)
        scale = ((away * away).mean(1, True) + eps).rsqrt()
        total = _slope(input_t, away * scale, scale)
        total = total if weight is None else total * weight
    if weight_t is not None:
        part = _normal(input, eps) * weight_t
        total = part if total is None else total + part
    if bias_t is not None:
        part = bias_t.expand(input._layout.shape)
        total = part if total is None else total + part
    return total


@structured(
    "nn.normalization.layer_norm_gradient",
    fresh=True,
    homes="nowhere",
    known_as="native_layer_norm_backward",
    differentiable=False,
)
def layer_norm_gradient(
    g: Tensor, input: Tensor, weight: Tensor | None, mean: Tensor, deviation: Tensor
) -> Tensor:
    """Return the gradient of layer_norm_rows with respect to its input. This op is not
    differentiable.
    """


@layer_norm_gradient.plan
def _(g: Tensor, input: Tensor, weight: Tensor, mean: Tensor, deviation: Tensor) -> Plan:
    return Plan(input._layout.shape, input._layout.dtype)


def _layer_norm_of_rows(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Any:
    if (
        input.__class__ in PLAIN
        and weight.__class__ in PLAIN
        and bias.__class__ in PLAIN
        and eps.__class__ is float
    ):
        of_row, layout = weight._layout, input._layout
        if (
            bias._layout is of_row
            and of_row.dtype is layout.dtype
            and of_row.dtype.is_floating_point
            and len(layout.shape) == 2
            and layout.shape[1:] == of_row.shape == normalized_shape
        ):
            return layer_norm_rows(input, weight, bias, eps)[0]
    return NOT_TAKEN


@composite(homes="function functional", node="native_layer_norm", quick=_layer_norm_of_rows)
def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Tensor:
    """Return input normalized to mean 0 and variance 1 over its last axes, times weight, plus bias.

    Raises  RuntimeError if the last axes of input are not normalized_shape

    Args:
        input: A floating-point tensor of shape (..., *normalized_shape). Equal elements become 0,
            before weight and bias.
        normalized_shape: The lengths of the axes to normalize, which are the last axes of input.
        weight: A factor for each element, or None.
        bias: A summand for each element, or None.
        eps: Added to the variance, to avoid division by 0.
        cudnn_enable: Ignored.

    Example:
        >>> F.layer_norm(torch.tensor([[1.0, 2.0, 3.0]]), (3,))
        tensor([[-1.2247,  0.0000,  1.2247]])
    """
    shape = input._layout.shape
    last = _last_axes("layer_norm", input, normalized_shape, weight=weight, bias=bias)
    require_dtype_of_norm(input._layout, weight, bias)
    if len(shape) == 2 and len(last) == 1:
        return layer_norm_rows(input, weight, bias, eps)[0]
    n, rows = count_elements(last), count_elements(shape[: len(shape) - len(last)])
    flat = [None if one is None else one.reshape(n) for one in (weight, bias)]
    if may_reshape(input, flat):
        matrix = reshaped_operand(input, (rows, n))
        return reshape_result(layer_norm_rows.public(matrix, *flat, eps)[0], shape)
    matrix = input.reshape(rows, n)
    return layer_norm_rows.public(matrix, *flat, eps)[0].reshape(shape)


def _last_axes(
    name: str, input: Tensor, normalized_shape: Sequence[int], **given: Tensor | None
) -> Shape:
    """Return normalized_shape as a tuple.

    Raises  ShapeError unless normalized_shape equals the last lengths of input and the shape of
            each parameter; NotImplementedError for dtypes that are not floating-point
    """
    layout, last = input._layout, normalized_shape
    if type(last) is not tuple:  # avoids a call of all_of, which takes 0.2 us
        last = tuple(all_of(last))
    if not last:
        raise ShapeError(
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one "
            f"element, but got normalized_shape = {list(last)}"
        )
    if layout.shape[-len(last) :] != last:
        raise ShapeError(
            f"Given normalized_shape={short_repr(list(last))}, expected input with shape [*, "
            f"{short_repr(list(last))[1:]}, but got input of size{list(layout.shape)}"
        )
    for parameter, one in given.items():
        if one is not None and one._layout.shape != last:
            raise ShapeError(
                f"Expected {parameter} to be of same shape as normalized_shape, but got {parameter}"
                f" of shape {list(one._layout.shape)} and normalized_shape = "
                f"{short_repr(list(last))}"
            )
    takes_complex = name == "rms_norm"
    if not layout.dtype.is_floating_point and not (takes_complex and layout.dtype.is_complex):
        raise NotImplementedError(f'"{name}" not implemented for {layout.dtype.name}')
    return last


@structured(
    "nn.normalization.rms_norm",
    kernel_gradients=True,
    fresh=True,
    homes="nowhere",
    known_as="_fused_rms_norm",
    node="mul",
)
def rms_norm_rows(input: Tensor, weight: Tensor | None, eps: float) -> tuple[Tensor, Tensor]:
    """Return each row of a matrix divided by the root of its mean square, times weight."""


@rms_norm_rows.plan
def _(input: Tensor, weight: Tensor, eps: float) -> Plan:
    shape, dtype = input._layout.shape, input._layout.dtype
    row = ((shape[0], 1), dtype.computes_in)
    return Plan(shape, dtype, (eps,), extra_outputs=(row,))


@layer_norm_rows.batches
@rms_norm_rows.batches
def _(op: Op, operands: tuple[Any, ...], attributes: tuple[Any, ...], level: int) -> Any:
    input, weight, *biases = operands
    size = levels.sizes[level - 1]
    rows = value_at(input, level, size=size)
    count, n = count_elements(input._layout.shape[:-1]), input._layout.shape[-1]
    flat = rows.reshape(size * count, n)
    out, *others = op.general((flat, *[None] * (1 + len(biases))), attributes)
    found = batched(out.reshape(rows._layout.shape), level)
    if weight is not None:
        found = found * weight
    for bias in biases:
        found = found if bias is None else found + bias
    return value_at(found, level), *[one.reshape(size, count, 1) for one in others]


def _by_root(input: Tensor, eps: float) -> tuple[Any, Any]:
    """Return the rows divided by the root of their mean square, and the reciprocals of the roots,
    computed by ops that can be differentiated again.
    """
    wide = input.to(input._layout.dtype.computes_in)
    scale = ((wide * wide).mean(1, True) + eps).rsqrt()
    return wide * scale, scale


@rms_norm_rows.vjp("input")
def _(
    g: Tensor, input: Tensor, weight: Tensor | None, eps: float, others: tuple[Tensor, ...]
) -> Any:
    if tls.grad and may_fuse(input, g, weight):
        return rms_norm_slope.public(g, input, weight, *others, eps)
    normal, scale = _by_root(input, eps)
    g = g if weight is None else g * weight
    return (g - normal * (g * normal).mean(1, True)) * scale


@rms_norm_rows.vjp("weight")
def _(g: Tensor, input: Tensor, eps: float, others: tuple[Tensor, ...]) -> Any:
    return (g * _by_root(input, eps)[0]).sum(0)


@rms_norm_rows.jvp
def _(
    input: Tensor,
    input_t: Tensor | None,
    weight: Tensor | None,
    weight_t: Tensor | None,
    eps: float,
) -> Any:
    normal, scale = _by_root(input, eps)
    total = None
    if input_t is not None:
        total = (input_t - normal * (input_t * normal).mean(1, True)) * scale
        total = total if weight is None else total * weight
    if weight_t is not None:
        part = normal * weight_t
        total = part if total is None else total + part
    return total


@composite(homes="function functional", node="mul")
def rms_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    """Return input divided by the root of its mean square over the last axes, times weight."""
    last = _last_axes("rms_norm", input, normalized_shape, weight=weight)
    shape, dtype = input._layout.shape, input._layout.dtype
    if eps is None:
        eps = float(float_limits(real_of(dtype)).eps)
    if dtype.is_complex:
        # As in PyTorch, this is the mean of x * x. For complex numbers, it differs from the mean of
        # |x|**2.
        dims = tuple(range(len(shape) - len(last), len(shape)))
        normal: Any = input * ((input * input).mean(dims, True) + eps).rsqrt()
        return normal if weight is None else normal * weight  # type: ignore[no-any-return]
    if len(shape) == 2 and len(last) == 1:
        return rms_norm_rows(input, weight, eps)[0]
    n, rows = count_elements(last), count_elements(shape[: len(shape) - len(last)])
    flat = None if weight is None else weight.reshape(n)
    found = rms_norm_rows(input.reshape(rows, n), flat, eps)[0]
    return found.reshape(shape)


@composite(homes="functional", known_as="")
def local_response_norm(
    input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    """Return input / (k + alpha * m)**beta, where m is the mean of the squares of `size`
    neighbouring channels.

    Shape   (N, C, ...) -> the same
    """
    shape = input._layout.shape
    if len(shape) < 3:
        raise ShapeError(
            f"Expected 3D or higher dimensionality input (got {len(shape)} dimensions)"
        )
    if size < 1:
        raise ShapeError(
            f"local_response_norm: size should be greater than zero, got {short_repr(size)}"
        )
    if not input._layout.numel:
        return input
    squares = _neighbours(input.square(), size // 2, (size - 1) // 2)
    found: Any = input / (squares * (alpha / size) + k).pow(beta)
    return found  # type: ignore[no-any-return]


def _neighbours(x: Tensor, before: int, behind: int) -> Any:
    """Return, for each channel, the sum of the channel, the `before` channels before it and the
    `behind` channels after it.
    """
    channels, ndim = x._layout.shape[1], len(x._layout.shape)
    total = x
    for by in range(-min(before, channels - 1), min(behind, channels - 1) + 1):
        # The sum is computed from shifted copies of the tensor, because running sums would lose
        # precision by cancellation.
        if by:
            part = x.narrow(1, max(by, 0), channels - abs(by))
            ends = [0, 0] * (ndim - 2) + [max(-by, 0), max(by, 0)]
            total = total + COMPOSITES["pad"].call(part, ends)
    return total


def cross_map_lrn(input: Tensor, size: int, alpha: float, beta: float, k: float) -> Any:
    """Return the result of CrossMapLRN2d.

    Raises  ValueError if input does not have four axes, or size is below 1
    """
    ndim = len(input._layout.shape)
    if ndim != 4:
        raise ValueError(f"CrossMapLRN2d: Expected input to be 4D, got {ndim}D instead.")
    if size < 1:
        raise ValueError(f"CrossMapLRN2d: size should be greater than zero, got {short_repr(size)}")
    reach, channels = (size - 1) // 2 + 1, input._layout.shape[1]
    squares = input.square()
    total = _neighbours(squares, reach - 1, reach - 1)
    if channels > reach:
        # PyTorch computes a sliding sum, from which it never subtracts the first channel.
        first = squares.narrow(1, 0, 1).expand((-1, channels - reach, -1, -1))
        total = total + COMPOSITES["pad"].call(first, [0, 0, 0, 0, reach, 0])
    return input / (total * (alpha / size) + k).pow(beta)


def _group_norm_of_plain(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Any:
    found = groups_or_none(input, num_groups, weight, bias, eps)
    return NOT_TAKEN if found is None else found


@composite(homes="functional", node="native_group_norm", quick=_group_norm_of_plain)
def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Return normalized input times weight, plus bias. The channels of each sample are divided into
    num_groups groups, and each group is normalized to mean 0 and variance 1.

    Shape   (N, C, ...) -> the same
    """
    shape = input._layout.shape
    require_channeled("group_norm", input._layout, weight, bias)
    n, channels = shape[:2]
    if num_groups <= 0 or channels % num_groups:
        raise ShapeError(
            "Expected number of channels in input to be divisible by num_groups, but got input of "
            f"shape {list(shape)} and num_groups={num_groups}"
        )
    for name, one in (("weight", weight), ("bias", bias)):
        if one is not None and one._layout.shape != (channels,):
            raise ShapeError(
                f"Expected {name} to be a vector of size equal to the number of channels in input, "
                f"but got {name} of shape {list(one._layout.shape)} and input of shape "
                f"{list(shape)}"
            )
    if n * (channels // num_groups) * math.prod(shape[2:]) == 1:
        raise ValueError(
            f"Expected more than 1 value per channel when training, got input size {list(shape)}"
        )
    length = input._layout.numel // max(n * num_groups, 1)
    rows = input.reshape(n * num_groups, length)
    found = layer_norm_rows(rows, None, None, eps)[0]
    return copied_in_format(input, scale_channels(found.reshape(shape), weight, bias))
