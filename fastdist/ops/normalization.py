"""Layer normalisation."""

from __future__ import annotations

from typing import Any

from ..core.dtypes import float16, float32
from ..core.errors import ShapeError
from ..dispatch.composite import composite
from ..dispatch.structured import Plan, structured
from ..graph.modes import tls
from ..tensor.layout import count_elements
from ..tensor.tensor import Tensor


@structured(
    "normalization.layer_norm", has_out=False, fresh=True, node_name="NativeLayerNormBackward0"
)
def layer_norm_rows(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
) -> Tensor:
    """Return each row of a matrix less its mean, over its deviation, times weight, plus bias."""


@layer_norm_rows.plan
def _(input: Tensor, weight: Any, bias: Any, eps: float) -> Plan:
    shape, dtype = input.layout.shape, input.layout.dtype
    row = ((shape[0], 1), float32 if dtype is float16 else dtype)
    return Plan(shape, dtype, (eps,), extra_outputs=(row, row))


def _normal(input: Any, eps: float) -> Any:
    """Return the normalised rows as an expression that can be differentiated again."""
    away = input - input.mean(1, True)
    return away * ((away * away).mean(1, True) + eps).rsqrt()


@layer_norm_rows.vjp("input")
def _(g: Any, input: Any, weight: Any, eps: float, others: Any) -> Any:
    if not tls.grad:
        return layer_norm_gradient.public(g, input, weight, *others)
    away = input - input.mean(1, True)
    scale = ((away * away).mean(1, True) + eps).rsqrt()
    return _slope(g if weight is None else g * weight, away * scale, scale)


def _slope(g: Any, normal: Any, scale: Any) -> Any:
    return (g - g.mean(1, True) - normal * (g * normal).mean(1, True)) * scale


@layer_norm_rows.vjp("weight")
def _(g: Any, input: Any, eps: float, others: Any) -> Any:
    if tls.grad:
        return (g * _normal(input, eps)).sum(0)
    mean, deviation = others
    return (g * ((input - mean) / deviation)).sum(0)


@layer_norm_rows.vjp("bias")
def _(g: Any) -> Any:
    return g.sum(0)


@layer_norm_rows.jvp
def _(input: Any, input_t: Any, weight: Any, weight_t: Any, bias_t: Any, eps: float) -> Any:
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
        part = bias_t.expand(input.layout.shape)
        total = part if total is None else total + part
    return total


@structured("normalization.layer_norm_gradient", has_out=False, fresh=True)
def layer_norm_gradient(
    g: Tensor, input: Tensor, weight: Tensor | None, mean: Tensor, deviation: Tensor
) -> Tensor:
    """Return the gradient of layer_norm_rows by its input; not differentiable itself."""


@layer_norm_gradient.plan
def _(g: Tensor, input: Tensor, weight: Any, mean: Tensor, deviation: Tensor) -> Plan:
    return Plan(input.layout.shape, input.layout.dtype)


@composite(functional=True, method=False)
def layer_norm(
    input: Tensor,
    normalized_shape: Any,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Tensor:
    """Return input with mean 0 and variance 1 over its last axes, times weight, plus bias."""
    last = tuple(normalized_shape)
    shape = input.layout.shape
    if not last or shape[len(shape) - len(last) :] != last or len(last) > len(shape):
        raise ShapeError(
            f"Given normalized_shape={list(last)}, expected input with shape [*, "
            f"{', '.join(map(str, last))}], but got input of size{list(shape)}"
        )
    for name, given in (("weight", weight), ("bias", bias)):
        if given is not None and given.layout.shape != last:
            raise ShapeError(
                f"Expected {name} to be of same shape as normalized_shape, but got {name} of shape "
                f"{list(given.layout.shape)} and normalized_shape = {list(last)}"
            )
    n = count_elements(last)
    rows = count_elements(shape[: len(shape) - len(last)])
    if len(shape) == 2 and len(last) == 1:
        return layer_norm_rows.public(input, weight, bias, eps)[0]  # type: ignore[no-any-return]
    flat = [None if one is None else one.reshape(n) for one in (weight, bias)]
    matrix = input.reshape(rows, n)
    return layer_norm_rows.public(matrix, *flat, eps)[0].reshape(shape)  # type: ignore[no-any-return]
