"""Adamax."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

from ..core.missing import show_public
from ..language.program import Program, read_program
from ..ops.create.creation import zeros_like
from ..tensor.tensor import Tensor
from .counted import CountedOptimizer
from .fused import direction
from .optimizer import Group
from .options import checked
from .updates import run_program


@functools.cache
def _program(maximize: bool, decays: bool) -> Program:
    d = direction(maximize=maximize, weight_decay=decays)
    return read_program(
        f"""
        m = m + new * ({d} - m)
        u = maximum(u * beta, abs({d}) + eps)
        p = p - rate * (m / u)
        """,
        ("p", "g", "m", "u"),
        ("new", "beta", "eps", "rate", "decay"),
    )


class Adamax(CountedOptimizer):
    """Steps by the running mean of gradients divided by a decaying maximum of absolute values.

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

    def update_all(self, group: Group, parameters: list[Tensor], gradients: list[Tensor]) -> None:
        """Update parameters of a group."""
        states = [self.state[p] or self._begin(group, p) for p in parameters]
        counts = self.count_all(group, parameters, states)
        (beta1, beta2), lr, decay = group["betas"], group["lr"], group["weight_decay"]
        numbers = {
            step: [1.0 - beta1, beta2, group["eps"], lr / (1.0 - beta1**step), decay]
            for step in dict.fromkeys(counts)
        }
        means, largest = ([state[name] for state in states] for name in ("exp_avg", "exp_inf"))
        run_program(
            _program(bool(group["maximize"]), bool(decay)),
            [parameters, gradients, means, largest],
            [numbers[step] for step in counts],
        )

    def _begin(self, group: Group, parameter: Tensor) -> dict[str, Any]:
        state = self.state[parameter]
        state["step"] = self.number(group, parameter)
        state["exp_avg"] = zeros_like(parameter)
        state["exp_inf"] = zeros_like(parameter)
        return state


show_public(__name__)
