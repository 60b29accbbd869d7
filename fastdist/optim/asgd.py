"""ASGD."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from ..graph.modes import no_grad
from ..ops.creation import zeros_like
from ..tensor.tensor import Tensor
from .counted import CountedOptimizer
from .fused import direction, fused
from .optimizer import Group
from .options import checked

_blend = fused("ax + mu * (p - ax)", "ax", "p", "mu")


class ASGD(CountedOptimizer):
    """Steps against the gradient by less and less, and keeps the mean of all places as state "ax".

    Raises  ValueError for options out of range
    Source  Polyak and Juditsky 1992, "Acceleration of stochastic approximation by averaging"
    """

    _numbers: ClassVar[tuple[str, ...]] = ("step", "eta", "mu")
    _on_devices = "params, mus, etas, and state_steps must be on supported devices"

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        options = checked(
            lr=lr,
            lambd=lambd,
            alpha=alpha,
            t0=t0,
            weight_decay=weight_decay,
            foreach=foreach,
            maximize=maximize,
            differentiable=differentiable,
            capturable=capturable,
        )
        super().__init__(params, options)

    def number(self, group: Group, parameter: Tensor, value: float = 0.0) -> Tensor:
        """Return a number of the state as a Tensor, which is where the parameter is."""
        return super().number({**group, "capturable": True}, parameter, value)

    def update(self, group: Group, parameter: Tensor, gradient: Tensor) -> None:
        """Change one parameter."""
        state = self.state[parameter]
        if not state:
            state["step"] = self.number(group, parameter)
            state["eta"] = self.number(group, parameter, float(group["lr"]))
            state["mu"] = self.number(group, parameter, 1.0)
            state["ax"] = zeros_like(parameter)
        step, decay = self.count(group, parameter, state), group["weight_decay"]
        lr, lambd, eta = group["lr"], group["lambd"], float(state["eta"].item())
        d = direction(maximize=group["maximize"], weight_decay=decay)
        descend = fused(f"p * keep - eta * {d}", "p", "g", "keep", "eta", "decay")
        descend(parameter, gradient, 1.0 - lambd * eta, eta, decay)
        mu = float(state["mu"].item())
        if mu == 1.0:
            state["ax"].copy_(parameter)
        else:
            _blend(state["ax"], parameter, mu)
        with no_grad():
            state["eta"].fill_(float(lr / ((1.0 + lambd * lr * step) ** group["alpha"])))
            state["mu"].fill_(1.0 / max(1.0, float(step) - group["t0"]))
