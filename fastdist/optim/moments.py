"""What Adam, NAdam and RAdam have in common: running means of gradients and of their squares."""

from __future__ import annotations

from ..tensor.tensor import Tensor
from .fused import direction, fused
from .optimizer import Group

shrink = fused("p * keep", "p", "keep")


def follow(
    group: Group, parameter: Tensor, gradient: Tensor, mean: Tensor, square: Tensor
) -> tuple[str, float]:
    """Shrink the parameter where its decay is decoupled, and bring both means up to the gradient.

    Return the text of the gradient that was followed, over g, p and decay, and that decay.
    """
    (beta1, beta2), decay = group["betas"], group["weight_decay"]
    if decay and group["decoupled_weight_decay"]:
        shrink(parameter, 1.0 - group["lr"] * decay)
        decay = 0.0
    d = direction(maximize=group["maximize"], weight_decay=decay)
    blend = fused(f"m + new * ({d} - m)", "m", "g", "p", "new", "decay")
    blend(mean, gradient, parameter, 1.0 - beta1, decay)
    spread = fused(f"d = {d}; v * beta + new * d * d", "v", "g", "p", "beta", "new", "decay")
    spread(square, gradient, parameter, beta2, 1.0 - beta2, decay)
    return d, decay
