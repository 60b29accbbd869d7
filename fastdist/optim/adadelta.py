"""Adadelta."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..core.missing import show_public
from ..ops.create.creation import empty_like, zeros_like
from ..tensor.tensor import Tensor
from .counted import CountedOptimizer
from .fused import direction, fused
from .optimizer import Group
from .options import checked
from .updates import as_real

_forget = fused("rho * u + new * delta * delta", "u", "delta", "rho", "new")
_descend = fused("p - lr * delta", "p", "delta", "lr")


class Adadelta(CountedOptimizer):
    """Steps by the gradient times the ratio of two root mean squares: of updates, and of gradients.

    Raises  ValueError for options out of range
    Source  Zeiler 2012, "ADADELTA: An Adaptive Learning Rate Method"
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}; it must be in [0, 1]")
        options = checked(
            lr=lr,
            rho=rho,
            eps=eps,
            weight_decay=weight_decay,
            maximize=maximize,
            capturable=capturable,
            foreach=foreach,
            differentiable=differentiable,
        )
        super().__init__(params, options)

    def update(self, group: Group, parameter: Tensor, gradient: Tensor) -> None:
        """Update one parameter."""
        state = self.state[parameter]
        if not state:
            state["step"] = self.number(group, parameter)
            state["square_avg"] = zeros_like(parameter)
            state["acc_delta"] = zeros_like(parameter)
        self.count(group, parameter, state)
        rho, eps, decay = group["rho"], group["eps"], group["weight_decay"]
        squares, changes = as_real(state["square_avg"]), as_real(state["acc_delta"])
        parameter, gradient = as_real(parameter), as_real(gradient)
        d = direction(maximize=group["maximize"], weight_decay=decay)
        spread = fused(f"d = {d}; rho * v + new * d * d", "v", "g", "p", "rho", "new", "decay")
        spread(squares, gradient, parameter, rho, 1.0 - rho, decay)
        # Both updates below read delta, and each overwrites a tensor from which delta is computed.
        delta = empty_like(parameter)
        weigh = fused(
            f"sqrt(u + eps) / sqrt(v + eps) * {d}", "delta", "u", "v", "g", "p", "eps", "decay"
        )
        weigh(delta, changes, squares, gradient, parameter, eps, decay)
        _forget(changes, delta, rho, 1.0 - rho)
        _descend(parameter, delta, group["lr"])


show_public(__name__)
