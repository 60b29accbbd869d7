"""Fusion of a batch norm in evaluation mode into the layer before it."""

from __future__ import annotations

import copy
from typing import Any, TypeVar

from ...core.folded_frames import fold_public
from ...tensor.parameter import Parameter
from ...tensor.tensor import Tensor
from ..batch_norm import _BatchNorm
from ..convolution import _ConvNd
from ..linear import Linear

C = TypeVar("C", bound=_ConvNd)
L = TypeVar("L", bound=Linear)


def fuse_conv_bn_eval(conv: C, bn: _BatchNorm, transpose: bool = False) -> C:
    """Return a convolution equal to conv followed by bn, both in evaluation mode.

    Raises  AssertionError if conv or bn is in training mode, or if bn has no running statistics
    """
    mean, var = _numbers(conv, bn)
    fused: Any = copy.deepcopy(conv)
    fused.weight, fused.bias = fuse_conv_bn_weights(
        fused.weight, fused.bias, mean, var, bn.eps, bn.weight, bn.bias, transpose
    )
    return fused  # type: ignore[no-any-return]


def fuse_linear_bn_eval(linear: L, bn: _BatchNorm) -> L:
    """Return a Linear equal to linear followed by bn, both in evaluation mode.

    Raises  AssertionError if linear or bn is in training mode, if bn has no running statistics, or
            if bn.num_features is neither linear.out_features nor 1
    """
    mean, var = _numbers(linear, bn)
    if bn.num_features not in (linear.out_features, 1):
        raise AssertionError(
            "To fuse, linear.out_features == bn.num_features or bn.num_features == 1, got "
            f"linear.out_features={linear.out_features} and bn.num_features={bn.num_features}"
        )
    fused: Any = copy.deepcopy(linear)
    fused.weight, fused.bias = fuse_linear_bn_weights(
        fused.weight, fused.bias, mean, var, bn.eps, bn.weight, bn.bias
    )
    return fused  # type: ignore[no-any-return]


def fuse_conv_bn_weights(
    conv_w: Any,
    conv_b: Any,
    bn_rm: Any,
    bn_rv: Any,
    bn_eps: float,
    bn_w: Any,
    bn_b: Any,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """Return the weight and bias of a convolution after a batch norm is folded into them."""
    scale = (bn_rv + bn_eps).rsqrt()
    scale = scale if bn_w is None else scale * bn_w
    shape = [1] * conv_w.dim()
    shape[1 if transpose else 0] = -1
    shift = -bn_rm if conv_b is None else conv_b - bn_rm
    bias = shift * scale if bn_b is None else shift * scale + bn_b
    kind = conv_w.dtype if conv_b is None else conv_b.dtype
    learns = conv_b is not None and conv_b.requires_grad
    weight = (conv_w * scale.reshape(shape)).to(conv_w.dtype)
    return Parameter(weight, conv_w.requires_grad), Parameter(bias.to(kind), learns)


def fuse_linear_bn_weights(
    linear_w: Any,
    linear_b: Any,
    bn_rm: Any,
    bn_rv: Any,
    bn_eps: float,
    bn_w: Any,
    bn_b: Any,
) -> tuple[Parameter, Parameter]:
    """Return the weight and bias of a Linear after a batch norm is folded into them."""
    return fuse_conv_bn_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b)


def _numbers(layer: Any, bn: _BatchNorm) -> tuple[Tensor, Tensor]:
    if layer.training or bn.training:
        raise AssertionError("Fusion only for eval! Call .eval() of both first")
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("bn.running_mean and bn.running_var must not be None")
    return bn.running_mean, bn.running_var


fold_public(__name__)
