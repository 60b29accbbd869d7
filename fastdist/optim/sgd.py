"""SGD."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..graph.modes import no_grad
from ..ops.creation import zeros_like
from ..tensor.tensor import Tensor
from .fused import direction, fused
from .optimizer import Group, Optimizer
from .options import checked, require_for_fused, require_one_way

# What a state dict says for which there was no option when it was saved.
_GAINED = {
    "nesterov": False,
    "maximize": False,
    "foreach": None,
    "differentiable": False,
    "fused": False,
}


class SGD(Optimizer):
    """Steps against the gradient: v = momentum * v + (1 - dampening) * g; p = p - lr * v.

    Raises  ValueError for options out of range
    Source  Sutskever et al. 2013, "On the importance of initialization and momentum in deep
            learning", for nesterov
    Note    weight_decay adds weight_decay * p to the gradient; maximize steps along it; foreach and
            fused change nothing, since updates are few passes as they are
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float | Tensor = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        options = checked(
            lr=lr,
            momentum=momentum,
            dampening=dampening,
            weight_decay=weight_decay,
            nesterov=nesterov,
            maximize=maximize,
            foreach=foreach,
            differentiable=differentiable,
            fused=fused,
        )
        super().__init__(params, options)
        require_one_way(fused=fused, foreach=foreach, differentiable=differentiable)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            for name, value in _GAINED.items():
                group.setdefault(name, value)

    def update(self, group: Group, parameter: Tensor, gradient: Tensor) -> None:
        """Change one parameter."""
        decay, momentum = group["weight_decay"], group["momentum"]
        if group["fused"]:
            require_for_fused(parameter)
        d = direction(maximize=group["maximize"], weight_decay=decay)
        if not momentum:
            descend = fused(f"p - lr * {d}", "p", "g", "lr", "decay")
            descend(parameter, gradient, group["lr"], decay)
            return
        state = self.state[parameter]
        buffer = state.get("momentum_buffer")
        if buffer is None:
            buffer = state["momentum_buffer"] = zeros_like(parameter)
            # The first step takes the gradient whole, whatever the dampening, and out of any graph.
            with no_grad():
                fused(d, "v", "g", "p", "decay")(buffer, gradient, parameter, decay)
        else:
            text = f"momentum * v + new * {d}"
            remember = fused(text, "v", "g", "p", "momentum", "new", "decay")
            remember(buffer, gradient, parameter, momentum, 1.0 - group["dampening"], decay)
        ahead = f"({d} + momentum * v)" if group["nesterov"] else "v"
        descend = fused(f"p - lr * {ahead}", "p", "g", "v", "lr", "momentum", "decay")
        descend(parameter, gradient, buffer, group["lr"], momentum, decay)

    def update_sparse(self, group: Group, parameter: Tensor, gradient: Tensor) -> None:
        """Change the rows that the gradient touches, and with momentum those that it ever did."""
        momentum, g = group["momentum"], gradient
        if group["fused"]:
            raise RuntimeError("`_fused_sgd` does not support sparse gradients: leave fused out")
        if group["weight_decay"]:
            raise RuntimeError(
                "add(sparse, dense) is not supported. Use add(dense, sparse) instead. weight_decay "
                "would touch all rows: leave it at 0 for sparse gradients"
            )
        if group["maximize"]:
            g = -g
        if momentum:
            state = self.state[parameter]
            buffer = state.get("momentum_buffer")
            if buffer is None:
                buffer = g.clone()
            else:
                buffer = buffer * momentum + g * (1.0 - group["dampening"])
            # Added up at once: entries of each step behind each other would grow without end.
            state["momentum_buffer"] = buffer = buffer.detach().coalesce()
            g = g + buffer * momentum if group["nesterov"] else buffer
        parameter.add_(g, alpha=-float(group["lr"]))
