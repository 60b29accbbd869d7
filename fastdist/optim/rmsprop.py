"""RMSprop."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from ..ops.creation import zeros_like
from ..tensor.tensor import Tensor
from .counted import CountedOptimizer
from .fused import direction, fused
from .optimizer import Group
from .options import checked, require_not_negative

_descend = fused("p - lr * v", "p", "v", "lr")


class RMSprop(CountedOptimizer):
    """Steps by the gradient over the root of the running mean of squares of gradients.

    Raises  ValueError for options out of range
    Source  Tieleman and Hinton 2012, "Lecture 6.5 - rmsprop"; Graves 2013, "Generating Sequences
            With Recurrent Neural Networks", for centered
    """

    _gained: ClassVar[dict[str, Any]] = {
        "momentum": 0,
        "centered": False,
        **CountedOptimizer._gained,
    }

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        require_not_negative("alpha value", alpha)
        options = checked(
            lr=lr,
            momentum=momentum,
            alpha=alpha,
            eps=eps,
            centered=centered,
            weight_decay=weight_decay,
            capturable=capturable,
            foreach=foreach,
            maximize=maximize,
            differentiable=differentiable,
        )
        super().__init__(params, options)

    def update(self, group: Group, parameter: Tensor, gradient: Tensor) -> None:
        """Change one parameter."""
        state, momentum, centered = self.state[parameter], group["momentum"], group["centered"]
        if not state:
            state["step"] = self.number(group, parameter)
            state["square_avg"] = zeros_like(parameter)
            if momentum > 0:
                state["momentum_buffer"] = zeros_like(parameter)
            if centered:
                state["grad_avg"] = zeros_like(parameter)
        self.count(group, parameter, state)
        alpha, eps, decay = group["alpha"], group["eps"], group["weight_decay"]
        square, mean = state["square_avg"], state["grad_avg"] if centered else None
        d = direction(maximize=group["maximize"], weight_decay=decay)
        spread = fused(f"d = {d}; v * alpha + new * d * d", "v", "g", "p", "alpha", "new", "decay")
        spread(square, gradient, parameter, alpha, 1.0 - alpha, decay)
        if centered:
            blend = fused(f"m + new * ({d} - m)", "m", "g", "p", "new", "decay")
            blend(mean, gradient, parameter, 1.0 - alpha, decay)
        ratio = f"({d} / (sqrt({'v - m * m' if centered else 'v'}) + eps))"
        if momentum > 0:
            remember = fused(
                f"momentum * b + {ratio}", "b", "p", "g", "v", "m", "momentum", "eps", "decay"
            )
            buffer = state["momentum_buffer"]
            remember(buffer, parameter, gradient, square, mean, momentum, eps, decay)
            _descend(parameter, buffer, group["lr"])
        else:
            descend = fused(f"p - lr * {ratio}", "p", "g", "v", "m", "lr", "eps", "decay")
            descend(parameter, gradient, square, mean, group["lr"], eps, decay)
