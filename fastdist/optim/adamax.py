"""Adamax."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..ops.creation import zeros_like
from ..tensor.tensor import Tensor
from .counted import CountedOptimizer
from .fused import direction, fused
from .optimizer import Group
from .options import checked

_descend = fused("p - rate * (m / u)", "p", "m", "u", "rate")


class Adamax(CountedOptimizer):
    """Steps by the running mean of gradients over the largest of them, old ones counting less.

    Raises  ValueError for options out of range
    Source  Kingma and Ba 2014, "Adam: A Method for Stochastic Optimization", section 7
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        options = checked(
            lr=lr,
            betas=betas,
            eps=eps,
            weight_decay=weight_decay,
            foreach=foreach,
            maximize=maximize,
            differentiable=differentiable,
            capturable=capturable,
        )
        super().__init__(params, options)

    def update(self, group: Group, parameter: Tensor, gradient: Tensor) -> None:
        """Change one parameter."""
        state = self.state[parameter]
        if not state:
            state["step"] = self.number(group, parameter)
            state["exp_avg"] = zeros_like(parameter)
            state["exp_inf"] = zeros_like(parameter)
        step, (beta1, beta2) = self.count(group, parameter, state), group["betas"]
        decay, mean, largest = group["weight_decay"], state["exp_avg"], state["exp_inf"]
        d = direction(maximize=group["maximize"], weight_decay=decay)
        blend = fused(f"m + new * ({d} - m)", "m", "g", "p", "new", "decay")
        blend(mean, gradient, parameter, 1.0 - beta1, decay)
        grow = fused(f"maximum(u * beta, abs({d}) + eps)", "u", "g", "p", "beta", "eps", "decay")
        grow(largest, gradient, parameter, beta2, group["eps"], decay)
        _descend(parameter, mean, largest, group["lr"] / (1.0 - beta1**step))
