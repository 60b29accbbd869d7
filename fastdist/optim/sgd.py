"""SGD."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..ops.creation import zeros_like
from ..tensor.tensor import Tensor
from .fused import direction, fused
from .optimizer import Group, Optimizer, how, require_not_negative


class SGD(Optimizer):
    """Steps against the gradient: v = momentum * v + (1 - dampening) * g; p = p - lr * v.

    Raises  ValueError for options out of range
    Source  Sutskever et al. 2013, "On the importance of initialization and momentum in deep
            learning", for nesterov
    Note    weight_decay adds weight_decay * p to the gradient; maximize steps along it; foreach and
            fused change nothing
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        require_not_negative("learning rate", lr)
        require_not_negative("momentum value", momentum)
        require_not_negative("weight_decay value", weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
            **how(foreach=foreach, differentiable=differentiable, fused=fused),
        }
        super().__init__(params, defaults)

    def update(self, group: Group, parameter: Tensor, gradient: Tensor) -> None:
        """Change one parameter."""
        decay, momentum = group["weight_decay"], group["momentum"]
        d = direction(maximize=group["maximize"], weight_decay=decay)
        if not momentum:
            descend = fused(f"p - lr * {d}", "p", "g", "lr", "decay")
            descend(parameter, gradient, group["lr"], decay)
            return
        state = self.state[parameter]
        buffer, new = state.get("momentum_buffer"), 1.0 - group["dampening"]
        if buffer is None:
            # The first step takes the gradient whole, whatever the dampening.
            buffer = state["momentum_buffer"] = zeros_like(parameter)
            new = 1.0
        remember = fused(f"momentum * v + new * {d}", "v", "g", "p", "momentum", "new", "decay")
        remember(buffer, gradient, parameter, momentum, new, decay)
        ahead = f"({d} + momentum * v)" if group["nesterov"] else "v"
        descend = fused(f"p - lr * {ahead}", "p", "g", "v", "lr", "momentum", "decay")
        descend(parameter, gradient, buffer, group["lr"], momentum, decay)
