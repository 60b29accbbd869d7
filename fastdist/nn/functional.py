"""PyTorch's nn.functional: activations, losses, normalisation and layers as functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.dtypes import bool_
from ..namespace.load import FUNCTIONAL_NAMES, NAMES
from ..tensor.tensor import Tensor

_ops: dict[str, Callable[..., Tensor]] = FUNCTIONAL_NAMES
# Functions that need nothing here; their signatures are PyTorch's already.
binary_cross_entropy = _ops["binary_cross_entropy"]
binary_cross_entropy_with_logits = _ops["binary_cross_entropy_with_logits"]
cross_entropy = _ops["cross_entropy"]
dropout = _ops["dropout"]
embedding = _ops["embedding"]
gelu = _ops["gelu"]
huber_loss = _ops["huber_loss"]
kl_div = _ops["kl_div"]
l1_loss = _ops["l1_loss"]
layer_norm = _ops["layer_norm"]
linear = _ops["linear"]
logsigmoid = _ops["logsigmoid"]
mse_loss = _ops["mse_loss"]
nll_loss = _ops["nll_loss"]
one_hot = _ops["one_hot"]
pad = _ops["pad"]
prelu = _ops["prelu"]
sigmoid = _ops["sigmoid"]
smooth_l1_loss = _ops["smooth_l1_loss"]
softsign = _ops["softsign"]
tanh = _ops["tanh"]
tanhshrink = _ops["tanhshrink"]


def _activate(name: str, input: Tensor, inplace: bool, *numbers: Any) -> Tensor:
    if not inplace:
        return _ops[name](input, **_named(name, numbers))
    # Computed from a copy: what a gradient asks for must outlive the change.
    return input.copy_(_ops[name](input.clone(), **_named(name, numbers)))


_NUMBERS = {
    "celu": ("alpha",),
    "elu": ("alpha",),
    "hardtanh": ("min_val", "max_val"),
    "leaky_relu": ("negative_slope",),
    "threshold": ("threshold", "value"),
}


def _named(name: str, numbers: tuple[Any, ...]) -> dict[str, Any]:
    return dict(zip(_NUMBERS.get(name, ()), numbers, strict=True))


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """Return max(input, 0)."""
    return input.relu_() if inplace else _ops["relu"](input)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """Return input cut off below 0 and above 6."""
    return _activate("relu6", input, inplace)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """Return input where positive, negative_slope * input elsewhere."""
    return _activate("leaky_relu", input, inplace, negative_slope)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """Return input where positive, alpha * (exp(input) - 1) elsewhere."""
    return _activate("elu", input, inplace, alpha)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """Return input where positive, alpha * (exp(input / alpha) - 1) elsewhere."""
    return _activate("celu", input, inplace, alpha)


def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """Return log(1 + exp(beta * input)) / beta, and input itself beyond threshold."""
    return _ops["softplus"](input, beta=beta, threshold=threshold)


def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """Return input, but 0 within lambd of 0."""
    return _ops["hardshrink"](input, lambd=lambd)


def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """Return input drawn lambd nearer to 0."""
    return _ops["softshrink"](input, lambd=lambd)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """Return the scaled elu whose layers keep mean 0 and variance 1."""
    return _activate("selu", input, inplace)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """Return input * sigmoid(input)."""
    return _activate("silu", input, inplace)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """Return input * tanh(softplus(input))."""
    return _activate("mish", input, inplace)


def hardtanh(
    input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Tensor:
    """Return input cut off below min_val and above max_val.

    Raises  ValueError if min_val is larger than max_val
    """
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    return _activate("hardtanh", input, inplace, min_val, max_val)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """Return input * relu6(input + 3) / 6."""
    return _activate("hardswish", input, inplace)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """Return relu6(input + 3) / 6."""
    return _activate("hardsigmoid", input, inplace)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """Return input where it is above threshold, value elsewhere."""
    return _activate("threshold", input, inplace, threshold, value)


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """Return the first half of input along dim, times the sigmoid of the second.

    Raises  RuntimeError for an odd length
    """
    n = input.shape[dim]
    if n % 2:
        raise RuntimeError(
            f"Halving dimension must be even, but dimension {dim % input.dim()} is size {n}"
        )
    return input.narrow(dim, 0, n // 2) * sigmoid(input.narrow(dim, n // 2, n // 2))


def _softmax_dim(input: Tensor, dim: int | None) -> int:
    """Return dim, or the axis that PyTorch takes where none is given."""
    if dim is not None:
        return dim
    return 0 if input.dim() in (0, 1, 3) else 1


def softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """Return exp(input) divided by its sum along dim."""
    return _ops["softmax"](input, _softmax_dim(input, dim), dtype)


def log_softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """Return log(softmax(input)) along dim, without overflow."""
    return _ops["log_softmax"](input, _softmax_dim(input, dim), dtype)


def softmin(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """Return softmax of -input."""
    return softmax(-input, dim, _stacklevel, dtype)


def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """Return input divided by its norm along dim, which counts as eps at least."""
    return input / input.norm(p, dim, keepdim=True).clamp_min(eps).expand_as(input)


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """Return the cosine of the angle between x1 and x2 along dim."""
    first, second = NAMES["broadcast_tensors"](x1, x2)
    lengths = [one.norm(2, dim, keepdim=True).clamp_min(eps) for one in (first, second)]
    return ((first / lengths[0]) * (second / lengths[1])).sum(dim)  # type: ignore[no-any-return]


def pairwise_distance(
    x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Tensor:
    """Return the norms of x1 - x2 + eps along the last axis."""
    return (x1 - x2 + eps).norm(p, -1, keepdim)


def rms_norm(
    input: Tensor, normalized_shape: Any, weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """Return input over the root of its mean square over the last axes, times weight."""
    axes = tuple(range(-len(tuple(normalized_shape)), 0))
    if eps is None:
        eps = float(np.finfo(input.dtype.numpy).eps)
    scaled = input * (input.square().mean(axes, keepdim=True) + eps).rsqrt()
    return scaled if weight is None else scaled * weight


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """Return softmax(query @ key.T * scale + mask) @ value over the last two axes.

    A bool mask is true where attention is allowed; scale is 1 / sqrt(query's last axis) by default
    """
    factor = 1.0 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = (query * factor) @ key.transpose(-2, -1)
    if is_causal:
        if attn_mask is not None:
            raise RuntimeError(
                "scaled_dot_product_attention: give attn_mask or is_causal, not both"
            )
        attn_mask = scores.new_ones(scores.shape[-2:], dtype=bool_).tril()
    if attn_mask is not None:
        if attn_mask.dtype.name == "bool":
            scores = scores.masked_fill(~attn_mask, -math.inf)
        else:
            scores = scores + attn_mask
        # A query that may look at nothing gets zeros, as in PyTorch; softmax alone would give NaN.
        blind = (scores == -math.inf).all(-1, keepdim=True)
        weights = softmax(scores.masked_fill(blind, 0.0), -1).masked_fill(blind, 0.0)
    else:
        weights = softmax(scores, -1)
    if dropout_p:
        weights = dropout(weights, dropout_p)
    return weights @ value
