"""RAdam."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from itertools import groupby
from typing import Any, ClassVar

from ..core.missing import show_public
from ..language.program import Program, read_program
from ..ops.create.creation import zeros_like
from ..ops.pointwise.where import where
from ..tensor.tensor import Tensor
from .counted import CountedOptimizer
from .device_numbers import is_column
from .moments import FOLLOWED, follow, followed, how_followed
from .optimizer import Group
from .options import checked
from .updates import run_program


@functools.cache
def _program(trusts: bool | None, decays: bool, apart: bool, maximize: bool) -> Program:
    """Return the program of a step. If `trusts` is true, the step is divided by the root of v.

    If `trusts` is None, the program divides only where the value of its number `trust` is not 0.
    """
    moments, _ = follow(decays, apart, maximize)
    adapted, plain = "p - m / left * lr * (root / (sqrt(v) + eps)) * trust", "p - lr * (m / left)"
    either = f"where(trust != T(0), {adapted}, {plain})"
    return read_program(
        f"{moments}\np = {either if trusts is None else adapted if trusts else plain}",
        ("p", "g", "m", "v"),
        (*FOLLOWED, "left", "lr", "root", "eps", "trust"),
    )


class RAdam(CountedOptimizer):
    """Adam that divides by the root of squares only once enough steps have made it reliable.

    Raises  ValueError for options out of range
    Source  Liu et al. 2019, "On the Variance of the Adaptive Learning Rate and Beyond"
    """

    _gained: ClassVar[dict[str, Any]] = {
        **CountedOptimizer._gained,
        "decoupled_weight_decay": False,
    }

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        options = checked(
            lr=lr,
            betas=betas,
            eps=eps,
            weight_decay=weight_decay,
            maximize=maximize,
            foreach=foreach,
            capturable=capturable,
            decoupled_weight_decay=decoupled_weight_decay,
            differentiable=differentiable,
        )
        super().__init__(params, options)

    def update_all(self, group: Group, parameters: list[Tensor], gradients: list[Tensor]) -> None:
        """Update parameters of a group."""
        states = [self.state[p] or self._begin(group, p) for p in parameters]
        counts = self.count_all(group, parameters, states)
        known = followed(group)
        adapted = {step: _adapted(group, step) for step in dict.fromkeys(counts)}
        means, squares = ([state[name] for state in states] for name in ("exp_avg", "exp_avg_sq"))
        columns, at = [parameters, gradients, means, squares], 0
        if is_column(counts):
            row = [*known, *adapted[counts[0]]]
            run_program(_program(None, *how_followed(group)), columns, [row] * len(counts))
            return
        for trusts, alike in groupby(adapted[step][-1] is not None for step in counts):
            end = at + len([*alike])
            numbers = [
                [*known, *adapted[step][:-1], adapted[step][-1] or 1.0] for step in counts[at:end]
            ]
            program = _program(trusts, *how_followed(group))
            run_program(program, [column[at:end] for column in columns], numbers)
            at = end

    def _begin(self, group: Group, parameter: Tensor) -> dict[str, Any]:
        state = self.state[parameter]
        state["step"] = self.number(group, parameter)
        state["exp_avg"] = zeros_like(parameter)
        state["exp_avg_sq"] = zeros_like(parameter)
        return state


def _adapted(group: Group, step: Any) -> list[Any]:
    """Return the program's numbers for one step.

    The last number, `trust`, is None (0 in a column) if there were too few steps: the mean of
    squares then varies too much to divide by its root.
    """
    beta1, beta2 = group["betas"]
    left1, left2 = 1.0 - beta1**step, 1.0 - beta2**step
    longest = 2.0 / (1.0 - beta2) - 1.0
    length = longest - 2.0 * step * beta2**step / left2
    trust: Any = None
    of_column = is_column([step])
    if of_column or length > 5.0:
        trust = (
            ((length - 4.0) * (length - 2.0) * longest)
            / ((longest - 4.0) * (longest - 2.0) * length)
        ) ** 0.5
    if of_column:
        trust = where(length > 5.0, trust, 0.0)
    return [left1, group["lr"], left2**0.5, group["eps"], trust]


show_public(__name__)
