"""Normalisation of channels: batch and instance normalisation."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

from ...core.dtypes import DType
from ...core.errors import ShapeError
from ...core.torch_function import NOT_TAKEN
from ...dispatch.composite import composite
from ...dispatch.op import Op
from ...dispatch.structured import Plan, structured
from ...graph.modes import may_be_differentiated, no_grad
from ...interpreters.batched_tensor import batched, levels, value_at
from ...tensor.layout import Layout, Shape
from ...tensor.storage import bump_all
from ...tensor.tensor import Tensor
from ..channels_last import in_format_of
from ..pointwise.arithmetic import addcmul
from ..reduce.row_slopes import may_fuse
from ..refusals import require_dtype_of_norm
from .channel_norms import instances_or_none, normalize_by_known, takes_channels
from .norm_slopes import axes_of, batch_norm_slope


@structured(
    "nn.batch_norm.channels",
    kernel_gradients=True,
    fresh=True,
    homes="nowhere",
    known_as="native_batch_norm",
)
def normalize_channels(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return (channel - mean) / deviation * weight + bias for each channel. Further results are the
    means and variances of the channels.
    """


def require_channeled(name: str, layout: Layout, *parameters: Tensor | None) -> None:
    """Raise an error unless the operands have an axis of channels and the same floating dtype."""
    if len(layout.shape) < 2:
        raise ShapeError(
            "Expected at least 2 dimensions for input tensor but received "
            f"{len(layout.shape)}: {name} takes (N, C, ...)"
        )
    if not layout.dtype.is_floating_point:
        raise NotImplementedError(f'"{name}" not implemented for {layout.dtype.name}')
    require_dtype_of_norm(layout, *parameters)


@normalize_channels.plan
def _(input: Tensor, weight: Tensor, bias: Tensor | None, eps: float) -> Plan:
    layout = input._layout
    row = (layout.shape[1:2], layout.dtype.computes_in)
    return Plan(layout.shape, layout.dtype, (eps,), extra_outputs=(row, row))


@normalize_channels.batches
def _(op: Op, operands: tuple[Any, ...], attributes: tuple[Any, ...], level: int) -> Any:
    """Normalize the channels of all batched calls as channels of one tensor."""
    input, *affine = operands
    size = levels.sizes[level - 1]
    value = value_at(input, level, size=size)
    _, n, channels, *space = value._layout.shape
    merged = value.movedim(0, 1).reshape(n, size * channels, *space)
    out, *rows = op.general((merged, None, None), attributes)
    found = batched(out.reshape(n, size, channels, *space).movedim(1, 0), level)
    weight, bias = [
        one if one is None else one.reshape(channels, *[1] * len(space)) for one in affine
    ]
    found = found if weight is None else found * weight
    found = found if bias is None else found + bias
    return value_at(found, level), *[one.reshape(size, channels) for one in rows]


def _normal(input: Tensor, eps: float) -> tuple[Any, Any]:
    """Return the normalized channels and the factors 1 / deviation, computed by ops that can be
    differentiated again.
    """
    axes, _ = axes_of(input._layout.shape)
    away = input - input.mean(axes, True)
    scale = ((away * away).mean(axes, True) + eps).rsqrt()
    return away * scale, scale


def _slope(g: Tensor, normal: Tensor, scale: Tensor) -> Any:
    axes, _ = axes_of(g._layout.shape)
    even, along = g.mean(axes, True), (g * normal).mean(axes, True)
    return (g - even - normal * along) * scale


@normalize_channels.vjp("input", "weight", "bias")
def _(
    g: Tensor,
    input: Tensor,
    weight: Tensor | None,
    eps: float,
    others: tuple[Tensor, ...],
    wanted: Sequence[bool],
) -> Any:
    if not may_be_differentiated():
        return normalize_channels_gradients.public(g, input, weight, *others, eps, wanted[0])
    axes, kept = axes_of(input._layout.shape)
    by_input = by_weight = None
    if wanted[0] and may_fuse(input, g, weight) and input._layout.contiguous:
        by_input = batch_norm_slope.public(g, input, weight, *others, eps)
    if wanted[1] or (wanted[0] and by_input is None):
        normal, scale = _normal(input, eps)
        if by_input is None and wanted[0]:
            by_input = _slope(g if weight is None else g * weight.reshape(kept), normal, scale)
        by_weight = (g * normal).sum(axes) if wanted[1] else None
    return by_input, by_weight, g.sum(axes) if wanted[2] else None


@normalize_channels.jvp
def _(
    input: Tensor,
    input_t: Tensor | None,
    weight: Tensor | None,
    weight_t: Tensor | None,
    bias_t: Tensor | None,
    eps: float,
) -> Any:
    _, kept = axes_of(input._layout.shape)
    normal, scale = _normal(input, eps)
    total = None
    if input_t is not None:
        total = _slope(input_t, normal, scale)
        total = total if weight is None else total * weight.reshape(kept)
    if weight_t is not None:
        part = normal * weight_t.reshape(kept)
        total = part if total is None else total + part
    if bias_t is not None:
        part = bias_t.reshape(kept).expand(input._layout.shape)
        total = part if total is None else total + part
    return total


@structured(
    "nn.batch_norm.channels_gradients",
    fresh=True,
    homes="nowhere",
    known_as="native_batch_norm_backward",
    differentiable=False,
)
def normalize_channels_gradients(
    g: Tensor,
    input: Tensor,
    weight: Tensor | None,
    mean: Tensor,
    variance: Tensor,
    eps: float,
    is_whole: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of normalize_channels with respect to its inputs. If `is_whole` is
    false, the gradient with respect to the first input is empty. This op is not differentiable.
    """


@normalize_channels_gradients.plan
def _(
    g: Tensor,
    input: Tensor,
    weight: Tensor,
    mean: Tensor,
    variance: Tensor,
    eps: float,
    is_whole: bool,
) -> Plan:
    row = (mean._layout.shape, mean._layout.dtype)
    shape = input._layout.shape if is_whole else (0,)
    return Plan(shape, input._layout.dtype, (eps,), extra_outputs=(row, row))


def _require_channels(channels: int, **given: Tensor | None) -> None:
    for name, one in given.items():
        if one is not None and one._layout.numel != channels:
            raise ShapeError(f"{name} should contain {channels} elements not {one._layout.numel}")


def _batch_norm_of_plain(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    if (
        eps.__class__ is not float
        or momentum.__class__ is not float
        or not takes_channels(input, running_mean, running_var, weight, bias)
    ):
        return NOT_TAKEN
    layout = input._layout
    # If each channel has one element, `batch_norm` itself raises the error.
    if training is True and layout.numel != layout.shape[1]:
        out, mean, variance = normalize_channels(input, weight, bias, eps)
        if running_mean is not None:
            _follow_plain(running_mean, running_var, mean, variance, layout, momentum)
        return out
    if training is False and running_mean is not None and running_var is not None:
        return normalize_by_known(input, running_mean, running_var, weight, bias, eps)
    return NOT_TAKEN


@composite(homes="functional", node="native_batch_norm", quick=_batch_norm_of_plain)
def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Return input with each channel normalized to mean 0 and variance 1, times weight, plus bias.

    Shape   (N, C, ...) -> the same
    Note    training uses the mean and variance of the batch, and moves running_mean and running_var
            by momentum towards these two; otherwise running_mean and running_var are used
    """
    shape = input._layout.shape
    if shape == (0,):  # PyTorch accepts this shape, but no other shape with one axis
        known = (running_mean, running_var, weight, bias, training, momentum, eps)
        return batch_norm(input.reshape(0, 0), *known).reshape(0)
    require_channeled("batch_norm", input._layout, running_mean, running_var, weight, bias)
    if training:
        _require_several(shape)
    if (running_mean is None) is not (running_var is None) and training:
        raise ValueError("running_mean and running_var must either both be None or neither be None")
    _require_channels(
        shape[1], running_mean=running_mean, running_var=running_var, weight=weight, bias=bias
    )
    if training:
        out, mean, variance = normalize_channels(input, weight, bias, eps)
        if running_mean is not None and input._layout.numel:
            _follow(running_mean, running_var, mean, variance, shape, momentum)
        return out if input._layout.contiguous else in_format_of(input, out)
    for name, one in (("running_mean", running_mean), ("running_var", running_var)):
        if one is None:
            raise RuntimeError(
                f"{name} must be defined in evaluation mode: give it, or pass training=True"
            )
    return _by_known(input, running_mean, running_var, weight, bias, eps)


def _require_several(shape: Shape) -> None:
    if shape[0] * math.prod(shape[2:]) == 1:
        raise ValueError(
            f"Expected more than 1 value per channel when training, got input size {shape}: the "
            "variance of one is nothing to divide by; give a larger batch, or call eval()"
        )


def _follow(
    running_mean: Any, running_var: Any, mean: Any, variance: Any, shape: Shape, momentum: float
) -> None:
    n = shape[0] * math.prod(shape[2:])
    with no_grad():
        mean, variance = mean.detach(), variance.detach() * (n / max(n - 1, 1))
        dtype = running_mean._layout.dtype
        if mean._layout.dtype is not dtype:
            mean, variance = mean.to(dtype), variance.to(dtype)
        running_mean.lerp_(mean.reshape(running_mean._layout.shape), momentum)
        running_var.lerp_(variance.reshape(running_var._layout.shape), momentum)


@functools.lru_cache(maxsize=64)
def _follower(channels: int, count: int, dtype: DType | None, momentum: float) -> Any:
    from ...kernels.cpu.rows.small_columns import follower

    return follower(channels, count, dtype, momentum)


def _follow_plain(
    running_mean: Any, running_var: Any, mean: Any, variance: Any, layout: Layout, momentum: float
) -> None:
    """Do the same as `_follow` with one kernel. All tensors are on the CPU and of one dtype."""
    to_mean, to_var = running_mean._array, running_var._array
    if (
        running_mean._extra is not None
        or running_var._extra is not None
        or not (to_mean.flags.writeable and to_var.flags.writeable)
    ):
        _follow(running_mean, running_var, mean, variance, layout.shape, momentum)
        return
    channels = layout.shape[1]
    follow = _follower(channels, layout.numel // channels, layout.dtype.numpy, momentum)
    follow(mean._array, variance._array, to_mean, to_var)
    bump_all((running_mean, running_var))


def _by_known(input: Any, mean: Any, variance: Any, weight: Any, bias: Any, eps: float) -> Tensor:
    """Return input normalized by a given mean and variance. This takes one product and one sum for
    each element.
    """
    dtype = input._layout.dtype
    _, kept = axes_of(input._layout.shape)
    scale = (variance + eps).rsqrt()
    if weight is not None:
        scale = scale * weight
    shift = -mean * scale if bias is None else bias - mean * scale
    scale, shift = (one.to(dtype).reshape(kept) for one in (scale, shift))
    return addcmul(shift, input, scale)


def _instance_norm_of_plain(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float | None = 0.1,
    eps: float = 1e-5,
) -> Any:
    if running_mean is not None or running_var is not None or use_input_stats is not True:
        return NOT_TAKEN
    found = instances_or_none(input, weight, bias, eps)
    return NOT_TAKEN if found is None else found


@composite(homes="functional", node="view", quick=_instance_norm_of_plain)
def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Return input with each channel of each sample normalized to mean 0 and variance 1, times
    weight, plus bias.

    Shape   (N, C, ...) -> the same
    Note    running_mean and running_var move by momentum towards the mean and variance of a sample,
            averaged over all samples. If use_input_stats is False, running_mean and running_var
            are used instead of each sample's own mean and variance
    """
    shape = input._layout.shape
    require_channeled("instance_norm", input._layout, running_mean, running_var, weight, bias)
    if not use_input_stats:
        if running_mean is None or running_var is None:
            raise RuntimeError(
                "Expected running_mean and running_var to be defined when use_input_stats is false"
            )
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    if math.prod(shape[2:]) == 1:
        raise ValueError(
            f"Expected more than 1 spatial element when training, got input size {shape}"
        )
    _require_channels(
        shape[1], running_mean=running_mean, running_var=running_var, weight=weight, bias=bias
    )
    n, channels = shape[:2]
    rows: Any = input.reshape(1, n * channels, *shape[2:])
    found, mean, variance = normalize_channels(rows, None, None, eps)
    if running_mean is not None and input._layout.numel:
        means, variances = (one.reshape(n, channels).mean(0) for one in (mean, variance))
        _follow(running_mean, running_var, means, variances, (1, channels, *shape[2:]), momentum)
    return scale_channels(found.reshape(shape), weight, bias)


def scale_channels(normal: Any, weight: Any, bias: Any) -> Tensor:
    """Return normal * weight + bias, with one weight and bias for each channel."""
    dtype = normal._layout.dtype
    _, kept = axes_of(normal._layout.shape)
    weight, bias = (one if one is None else one.to(dtype).reshape(kept) for one in (weight, bias))
    if weight is None:
        return normal if bias is None else normal + bias  # type: ignore[no-any-return]
    if bias is None:
        return normal * weight  # type: ignore[no-any-return]
    return addcmul(bias, normal, weight)
