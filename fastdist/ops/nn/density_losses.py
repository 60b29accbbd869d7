"""Negative log likelihoods of Poisson and Gauss distributions, and Gumbel softmax."""

from __future__ import annotations

import math
import warnings
from typing import Any

from ...core.dtypes import WORDS, float_limits
from ...core.errors import DTypeError
from ...dispatch.composite import composite
from ...tensor.tensor import Tensor
from ..create.random import rand
from .cross_entropy import reduction_code, reduction_of
from .losses import reduced


@composite(homes="functional")
def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the negative log likelihood of the counts `target` under a Poisson distribution whose
    rate, or its logarithm, is `input`. `full` adds Stirling's approximation of log(target!).
    """
    reduction = reduction_of(size_average, reduce, reduction)
    x: Any = input
    losses = x.exp() - target * x if log_input else x - target * (x + eps).log()
    if full:
        # Targets up to 1 are replaced before the logarithm: the gradient of 0 * log(0) is NaN.
        counts: Any = target.masked_fill(target <= 1, 1.0)
        rest = counts * counts.log() - counts + 0.5 * (2 * math.pi * counts).log()
        losses = losses + rest.masked_fill(target <= 1, 0.0)
    return reduced(losses, reduction)


@composite(homes="functional", known_as="")
def gaussian_nll_loss(
    input: Tensor,
    target: Tensor | float,
    var: Any,
    full: bool | int = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """Return the negative log likelihood of `target` under normal distributions with mean `input`
    and variance `var`, clamped to at least `eps`. `full` adds log(2 * pi) / 2.

    Note    `var` may lack the last axis of `input`, or have length 1 along one axis
    """
    reduction_code(reduction)
    x: Any = input
    if not isinstance(var, Tensor):
        var = var * input.new_ones(input._layout.shape)
    if not var._layout.dtype.is_floating_point:
        raise DTypeError(
            "result type Float can't be cast to the desired output type "
            f"{WORDS[var._layout.dtype]}: cast var with .float()"
        )
    if bool((var.detach() < 0).any()):
        raise ValueError("var has negative entry/entries")
    shape, found = input._layout.shape, var._layout.shape
    if found != shape:
        if shape[:-1] == found:
            var = var.unsqueeze(-1)
        elif (
            len(shape) != len(found)
            or sum([m for n, m in zip(shape, found, strict=True) if n != m]) != 1
        ):
            raise ValueError(f"var is of incorrect size: {found} for input of {shape}")
    # The gradient of the clamped var is passed to var unchanged, as if var had not been clamped.
    var = var + (var.detach().clamp_min(eps) - var.detach())
    losses = 0.5 * (var.log() + (x - target).square() / var)
    return reduced(losses + 0.5 * math.log(2 * math.pi) if full else losses, reduction)


@composite(homes="functional", known_as="")
def gumbel_softmax(
    logits: Tensor, tau: Tensor | float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    """Return the softmax of logits with Gumbel noise, at temperature tau. If `hard` is true, return
    one-hot vectors with the 1 at the softmax's maximum, and with the gradient of the softmax.

    Source  Jang et al. 2017, "Categorical reparameterization with Gumbel-softmax"
    """
    if eps != 1e-10:
        warnings.warn("`eps` parameter is deprecated and has no effect.", stacklevel=3)
    layout, x = logits._layout, logits
    drawn: Any = rand(layout.shape, dtype=layout.dtype, device=layout.device)
    # Clamped, because rand may return 0, which has no logarithm.
    waits = -drawn.clamp_min(float(float_limits(layout.dtype).tiny)).log()
    soft: Any = ((x - waits.log()) / tau).softmax(dim)
    if not hard:
        return soft  # type: ignore[no-any-return]
    places = soft.detach().max(dim, keepdim=True).indices
    ones = soft.detach().new_zeros(layout.shape).scatter(dim, places, 1.0)
    return ones - soft.detach() + soft  # type: ignore[no-any-return]
