"""Rprop."""

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
from .updates import alike_in_parts, run_program


@functools.cache
def _program(maximize: bool) -> Program:
    turned = f"d = {direction(maximize=maximize, weight_decay=0)}; turn = d * old"
    # A gradient whose sign changed counts as 0: no step now, and no change of sign next time.
    kept = "where(turn < T(0), T(0), d)"
    resized = "where(turn > T(0), more, where(turn < T(0), less, where(turn == T(0), T(1), turn)))"
    # `where` is used instead of minimum and maximum: at equal values, their derivative is shared
    # between both arguments, so a step size at a bound would get only a part of the gradient.
    return read_program(
        f"""
        size = {turned}; s = size * {resized}; where(s < least, least, where(s > most, most, s))
        p = {turned}; p - sign({kept}) * size
        old = {turned}; {kept}
        """,
        ("p", "g", "old", "size"),
        ("less", "more", "least", "most"),
    )


class Rprop(CountedOptimizer):
    """Steps by the gradient's sign. The step size grows if the sign is the same as in the last
    step, and shrinks if it has changed.

    Raises  ValueError for options out of range
    Source  Riedmiller and Braun 1993, "A Direct Adaptive Method for Faster Backpropagation
            Learning: The RPROP Algorithm"
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(
                f"Invalid eta values: {etas[0]}, {etas[1]}; the first must be in (0, 1), the "
                "second above 1"
            )
        options = checked(
            lr=lr,
            etas=etas,
            step_sizes=step_sizes,
            foreach=foreach,
            maximize=maximize,
            differentiable=differentiable,
            capturable=capturable,
        )
        super().__init__(params, options)

    def update_all(self, group: Group, parameters: list[Tensor], gradients: list[Tensor]) -> None:
        """Update parameters of a group."""
        states = [self.state[p] or self._begin(group, p) for p in parameters]
        self.count_all(group, parameters, states)
        numbers = [*group["etas"], *group["step_sizes"]]
        before, sizes = ([state[name] for state in states] for name in ("prev", "step_size"))
        columns = [parameters, gradients, before, sizes]
        run_program(_program(bool(group["maximize"])), columns, [numbers] * len(parameters))

    def _begin(self, group: Group, parameter: Tensor) -> dict[str, Any]:
        state = self.state[parameter]
        state["step"] = self.number(group, parameter)
        state["prev"] = zeros_like(parameter)
        state["step_size"] = alike_in_parts(parameter, float(group["lr"]))
        return state


show_public(__name__)
