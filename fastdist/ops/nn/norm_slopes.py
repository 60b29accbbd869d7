"""The gradients of norms with respect to their inputs, as ops that can be differentiated again.

Each op records one Node, whereas its expression in other ops would record a dozen Nodes. One kernel
computes the gradients of such an op. The ops are used for small plain tensors on the CPU: see
may_fuse in ops/reduce/row_slopes.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...dispatch.structured import Plan, structured
from ...tensor.tensor import Tensor


def slope_of(g: Tensor, normal: Tensor, scale: Tensor, axes: int | Sequence[int]) -> Any:
    """Return the product of the Jacobian of the normalization and g. The Jacobian is symmetric."""
    even, along = g.mean(axes, True), (g * normal).mean(axes, True)
    return (g - even - normal * along) * scale


def _second(
    g: Tensor, u: Tensor, normal_scale: tuple[Any, Any], axes: int | Sequence[int]
) -> tuple[Any, Any]:
    """Return the gradients of slope_of(u, ...) with respect to u and to the input x of the norm."""
    normal, scale = normal_scale
    along, along_u = (g * normal).mean(axes, True), (u * normal).mean(axes, True)
    by_u = slope_of(g, normal, scale, axes)
    bent = (g * u).mean(axes, True) - g.mean(axes, True) * u.mean(axes, True) - along * along_u
    by_x = normal * bent * scale + by_u * along_u + slope_of(u, normal, scale, axes) * along
    return by_u, -by_x * scale


def _by_all(
    by_u: Tensor,
    by_x: Tensor,
    grad: Tensor,
    weight: Tensor | None,
    axes: int | Sequence[int],
    wanted: Any,
) -> Any:
    """Return the gradients with respect to grad, the input and the weight. `by_u` is the gradient
    with respect to u = grad * weight. The weight broadcasts along `axes`.
    """
    if weight is None:
        return by_u, by_x, None
    return by_u * weight, by_x, (grad * by_u).sum(axes) if wanted[2] else None


def normal_of(x: Tensor, eps: float, axes: int | Sequence[int]) -> tuple[Any, Any]:
    """Return x normalized along axes, and the factor 1 / deviation, computed by ops that can be
    differentiated again.
    """
    away = x - x.mean(axes, True)
    scale = ((away * away).mean(axes, True) + eps).rsqrt()
    return away * scale, scale


@structured("nn.norm_slopes.layer_norm", kernel_gradients=True, fresh=True, homes="nowhere",
            known_as="native_layer_norm_backward")  # fmt: skip
def layer_norm_slope(
    grad: Tensor,
    input: Tensor,
    weight: Tensor | None,
    mean: Tensor,
    deviation: Tensor,
    eps: float,
) -> Tensor:
    """Return the gradient of layer_norm_rows with respect to its input."""


@layer_norm_slope.plan
def _(
    grad: Tensor, input: Tensor, weight: Tensor, mean: Tensor, deviation: Tensor, eps: float
) -> Plan:
    return Plan(input._layout.shape, input._layout.dtype)


@layer_norm_slope.vjp("grad", "input", "weight")
def _(
    g: Tensor,
    grad: Tensor,
    input: Tensor,
    weight: Tensor | None,
    mean: Tensor,
    deviation: Tensor,
    eps: float,
    wanted: Sequence[bool],
) -> Any:
    u = grad if weight is None else grad * weight
    by_u, by_x = _second(g, u, normal_of(input, eps, 1), 1)
    return _by_all(by_u, by_x, grad, weight, 0, wanted)


@structured("nn.norm_slopes.rms_norm", kernel_gradients=True, fresh=True, homes="nowhere",
            known_as="_fused_rms_norm_backward")  # fmt: skip
def rms_norm_slope(
    grad: Tensor, input: Tensor, weight: Tensor | None, scale: Tensor, eps: float
) -> Tensor:
    """Return the gradient of rms_norm_rows with respect to its input."""


@rms_norm_slope.plan
def _(grad: Tensor, input: Tensor, weight: Tensor, scale: Tensor, eps: float) -> Plan:
    return Plan(input._layout.shape, input._layout.dtype)


@rms_norm_slope.vjp("grad", "input", "weight")
def _(
    g: Tensor,
    grad: Tensor,
    input: Tensor,
    weight: Tensor | None,
    scale: Tensor,
    eps: float,
    wanted: Sequence[bool],
) -> Any:
    u = grad if weight is None else grad * weight
    by = ((input * input).mean(1, True) + eps).rsqrt()
    normal = input * by
    along, along_u = (g * normal).mean(1, True), (u * normal).mean(1, True)
    by_u = (g - normal * along) * by
    bent = 3 * along * along_u - (g * u).mean(1, True)
    by_x = (normal * bent - g * along_u - u * along) * by * by
    return _by_all(by_u, by_x, grad, weight, 0, wanted)


@structured("nn.norm_slopes.group_norm", kernel_gradients=True, fresh=True, homes="nowhere",
            known_as="native_group_norm_backward")  # fmt: skip
def group_norm_slope(
    grad: Tensor,
    input: Tensor,
    weight: Tensor | None,
    mean: Tensor,
    deviation: Tensor,
    num_groups: int,
    eps: float,
) -> Tensor:
    """Return the gradient of normalize_groups with respect to its input."""


@group_norm_slope.plan
def _(
    grad: Tensor,
    input: Tensor,
    weight: Tensor,
    mean: Tensor,
    deviation: Tensor,
    num_groups: int,
    eps: float,
) -> Plan:
    return Plan(input._layout.shape, input._layout.dtype, (num_groups, eps))


@group_norm_slope.vjp("grad", "input", "weight")
def _(
    g: Tensor,
    grad: Tensor,
    input: Tensor,
    weight: Tensor | None,
    mean: Tensor,
    deviation: Tensor,
    num_groups: int,
    eps: float,
    wanted: Sequence[bool],
) -> Any:
    shape = input._layout.shape
    axes, kept = axes_of(shape)
    rows = (shape[0] * num_groups, -1)
    by_channel: Any = None if weight is None else weight.reshape(kept)
    u = (grad if weight is None else grad * by_channel).reshape(rows)
    x = input.reshape(rows)
    by_u, by_x = _second(g.reshape(rows), u, normal_of(x, eps, 1), 1)
    by_u, by_x = by_u.reshape(shape), by_x.reshape(shape)
    return _by_all(by_u, by_x, grad, by_channel, axes, wanted)


@structured("nn.norm_slopes.batch_norm", kernel_gradients=True, fresh=True, homes="nowhere",
            known_as="native_batch_norm_backward")  # fmt: skip
def batch_norm_slope(
    grad: Tensor,
    input: Tensor,
    weight: Tensor | None,
    mean: Tensor,
    variance: Tensor,
    eps: float,
) -> Tensor:
    """Return the gradient of normalize_channels with respect to its input."""


@batch_norm_slope.plan
def _(
    grad: Tensor, input: Tensor, weight: Tensor, mean: Tensor, variance: Tensor, eps: float
) -> Plan:
    return Plan(input._layout.shape, input._layout.dtype, (eps,))


@batch_norm_slope.vjp("grad", "input", "weight")
def _(
    g: Tensor,
    grad: Tensor,
    input: Tensor,
    weight: Tensor | None,
    mean: Tensor,
    variance: Tensor,
    eps: float,
    wanted: Sequence[bool],
) -> Any:
    axes, kept = axes_of(input._layout.shape)
    by_channel: Any = None if weight is None else weight.reshape(kept)
    u = grad if weight is None else grad * by_channel
    by_u, by_x = _second(g, u, normal_of(input, eps, axes), axes)
    return _by_all(by_u, by_x, grad, by_channel, axes, wanted)


def axes_of(shape: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return all axes except the channel axis, and the shape in which one number for each channel
    broadcasts to a tensor of shape `shape`.
    """
    axes = tuple([axis for axis in range(len(shape)) if axis != 1])
    return axes, (shape[1], *[1] * (len(shape) - 2))
