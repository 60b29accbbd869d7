"""Dropout of elements and of channels, alpha dropout, and leaky_relu with random slopes.

Each function multiplies its input by random numbers, which are constants in the graph.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from ...core.device import chosen
from ...core.dtypes import float32
from ...core.errors import ShapeError
from ...dispatch.composite import composite
from ...graph.modes import modes
from ...tensor.tensor import Tensor, wrap
from ..create.random import bernoulli, rand
from ..pointwise.arithmetic import mul
from ..refusals import require_floating_inputs
from .activation import leaky_relu

# The negative of selu's limit at -inf.
_ALPHA = 1.7580993408473766


def _require_probability(p: float) -> None:
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


def _kept(input: Tensor, p: float, *, channels: bool) -> Any:
    """Return a random number for each element or channel: 1 with probability 1 - p, otherwise 0."""
    shape = input._layout.shape
    if channels:
        if len(shape) < 2:
            raise ShapeError(
                "Feature dropout requires at least 2 dimensions in the input, which hold samples "
                f"and channels; got {shape}"
            )
        shape = (*shape[:2], *[1] * (len(shape) - 2))
    drawn: Any = rand(shape, dtype=input._layout.dtype.computes_in, device=input._layout.device)
    return (drawn < 1.0 - p).to(input._layout.dtype)


def drop_channels(input: Tensor, p: float, training: bool, inplace: bool) -> Tensor:
    _require_probability(p)
    if not training or p == 0.0 or not input._layout.numel:
        return input
    scale = _kept(input, p, channels=True)
    if p < 1.0:
        scale = scale / (1.0 - p)
    return input.mul_(scale) if inplace else mul(input, scale)


def _alpha(input: Tensor, p: float, training: bool, inplace: bool, *, channels: bool) -> Tensor:
    """Return input with elements or channels set to selu's lowest value with probability p, then
    scaled and shifted so that mean and variance are preserved.
    """
    _require_probability(p)
    if not training or p == 0.0 or not input._layout.numel:
        return input
    if p == 1.0:
        return input.mul_(0.0) if inplace else input * 0.0
    kept = _kept(input, p, channels=channels)
    a = 1.0 / math.sqrt((_ALPHA * _ALPHA * p + 1.0) * (1.0 - p))
    shift = (kept - 1.0) * (_ALPHA * a) + _ALPHA * a * p
    if inplace:
        return input.mul_(kept * a).add_(shift)
    return input * (kept * a) + shift  # type: ignore[no-any-return]


@composite(homes="functional", known_as="feature_dropout")
def dropout1d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Return input with each channel set to 0 with probability p. The other channels are scaled by
    1 / (1 - p).

    Shape   (N, C, L) or (C, L) -> the same
    """
    ndim = len(input._layout.shape)
    _require_probability(p)
    if ndim not in (2, 3):
        raise ShapeError(
            f"dropout1d: Expected 2D or 3D input, but received a {ndim}D input. Note that "
            "dropout1d exists to provide channel-wise dropout on inputs with 1 spatial dimension, "
            "a channel dimension, and an optional batch dimension (i.e. 2D or 3D inputs)."
        )
    return _with_batch(input, p, training, inplace, 3)


def _with_batch(input: Tensor, p: float, training: bool, inplace: bool, ndim: int) -> Tensor:
    """Drop channels of input, which has `ndim` axes, or one axis less if it is not a batch."""
    if len(input._layout.shape) >= ndim:
        return drop_channels(input, p, training, inplace)
    found = drop_channels(input.unsqueeze(0), p, training, inplace)
    return input if inplace else found.squeeze(0)


@composite(homes="functional", known_as="feature_dropout")
def dropout2d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Return input with each channel set to 0 with probability p. The other channels are scaled by
    1 / (1 - p).

    Shape   (N, C, H, W) -> the same
    """
    ndim = len(input._layout.shape)
    _require_probability(p)
    if ndim not in (3, 4):
        warnings.warn(
            f"dropout2d: Received a {ndim}-D input to dropout2d, which is deprecated and will "
            "result in an error in a future release. To retain the behavior and silence this "
            "warning, please use dropout instead.",
            stacklevel=3,
        )
    if ndim == 3:
        warnings.warn(
            "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout "
            "behavior is desired - input is interpreted as shape (N, C, L), where C is the channel "
            "dim; for (C, H, W) put an axis before it, or use dropout1d for (N, C, L).",
            stacklevel=3,
        )
    return drop_channels(input, p, training, inplace)


@composite(homes="functional", known_as="feature_dropout")
def dropout3d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Return input with each channel set to 0 with probability p. The other channels are scaled by
    1 / (1 - p).

    Shape   (N, C, D, H, W) or (C, D, H, W) -> the same
    """
    ndim = len(input._layout.shape)
    _require_probability(p)
    if ndim not in (4, 5):
        warnings.warn(
            f"dropout3d: Received a {ndim}-D input to dropout3d, which is deprecated and will "
            "result in an error in a future release. To retain the behavior and silence this "
            "warning, please use dropout instead.",
            stacklevel=3,
        )
    return _with_batch(input, p, training, inplace, 5)


@composite(homes="functional")
def alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """Return input with elements set to selu's lowest value with probability p, then scaled and
    shifted so that mean and variance are preserved.

    Source  Klambauer et al. 2017, "Self-Normalizing Neural Networks"
    """
    return _alpha(input, p, training, inplace, channels=False)


@composite(homes="functional")
def feature_alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """Do the same as alpha_dropout, but with whole channels instead of elements.

    Shape   (N, C, ...) -> the same
    """
    return _alpha(input, p, training, inplace, channels=True)


@composite(homes="function functional", node="rrelu_with_noise")
def rrelu(
    input: Tensor,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    training: bool = False,
    inplace: bool = False,
) -> Tensor:
    """Return input where it is positive, and slope * input elsewhere. In training, the slope is
    drawn from [lower, upper) for each element; otherwise the slope is (lower + upper) / 2.
    """
    if lower > upper:
        raise RuntimeError(
            "Lower bound should be less than or equal to the upper bound: rrelu got "
            f"{lower} and {upper}"
        )
    layout = input._layout
    x: Any = input.clone() if inplace else input
    if training:
        drawn: Any = rand(layout.shape, dtype=layout.dtype, device=layout.device)
        slope = (drawn * (upper - lower) + lower).masked_fill(x.detach() > 0, 1.0)
        found = x * slope
    else:
        found = leaky_relu(x, negative_slope=(lower + upper) / 2)
    return input.copy_(found) if inplace else found


@composite(homes="functional")
def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Return input with each element set to 0 with probability p. The other elements are scaled by
    1 / (1 - p).

    Args:
        input: A floating-point or complex tensor of any shape. With p=1 the result is 0 everywhere.
        p: The probability of dropping an element.
        training: Whether to drop elements; otherwise input is returned.
        inplace: Whether to overwrite the input.

    Example:
        >>> F.dropout(torch.ones(2), p=0.5, training=False)
        tensor([1., 1.])
    """
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if not training or p == 0.0:
        return input
    if (
        p < 1.0
        and input.__class__ in modes.plain
        and input._layout.tiny
        and input._layout.dtype is float32
        and not chosen.count
    ):
        # This draws the same numbers as bernoulli, without the checks and conversions of bernoulli.
        drawn: Any = rand(input._layout.shape) < 1.0 - p
        scaled = wrap(drawn._array * np.float32(1.0 / (1.0 - p)), input._layout)
        return input.mul_(scaled) if inplace else mul(input, scaled)
    if p < 1.0:
        require_floating_inputs("dropout", input)
    keep: Any = bernoulli(input, 1.0 - p)
    scaled = keep * (1.0 / (1.0 - p)) if p < 1.0 else keep
    if inplace:
        return input.mul_(scaled)
    return mul(input, scaled)
