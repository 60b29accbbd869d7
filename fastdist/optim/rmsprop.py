"""RMSprop."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any, ClassVar

from ..core.missing import show_public
from ..language.program import Program, read_program
from ..ops.create.creation import zeros_like
from ..tensor.tensor import Tensor
from .counted import CountedOptimizer
from .fused import direction
from .optimizer import Group
from .options import checked, require_not_negative
from .updates import run_program


@functools.cache
def _program(remembers: bool, centered: bool, maximize: bool, decays: bool) -> Program:
    d = direction(maximize=maximize, weight_decay=decays)
    ratio = f"({d} / (sqrt({'v - m * m' if centered else 'v'}) + eps))"
    lines = [f"v = d = {d}; v * alpha + new * d * d"]
    if centered:
        lines.append(f"m = m + new * ({d} - m)")
    if remembers:
        lines.append(f"b = momentum * b + {ratio}")
    lines.append(f"p = p - lr * {'b' if remembers else ratio}")
    arrays = ["p", "g", "v"] + ["b"] * remembers + ["m"] * centered
    return read_program(
        "\n".join(lines), (*arrays,), ("alpha", "new", "eps", "lr", "momentum", "decay")
    )


class RMSprop(CountedOptimizer):
    """Steps by the gradient divided by the root of the running mean of squared gradients.

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

    def update_all(self, group: Group, parameters: list[Tensor], gradients: list[Tensor]) -> None:
        """Update parameters of a group."""
        how = bool(group["momentum"] > 0), bool(group["centered"])
        names = [name for name, wanted in zip(("momentum_buffer", "grad_avg"), how) if wanted]
        states = [self.state[p] or self._begin(group, p, names) for p in parameters]
        self.count_all(group, parameters, states)
        alpha, decay = group["alpha"], group["weight_decay"]
        numbers = [alpha, 1.0 - alpha, group["eps"], group["lr"], group["momentum"], decay]
        columns = [[state[name] for state in states] for name in ("square_avg", *names)]
        program = _program(*how, bool(group["maximize"]), bool(decay))
        run_program(program, [parameters, gradients, *columns], [numbers] * len(parameters))

    def _begin(self, group: Group, parameter: Tensor, names: list[str]) -> dict[str, Any]:
        state = self.state[parameter]
        state["step"] = self.number(group, parameter)
        for name in ("square_avg", *names):
            state[name] = zeros_like(parameter)
        return state


show_public(__name__)
