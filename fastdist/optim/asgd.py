"""ASGD."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from itertools import groupby
from typing import Any, ClassVar

from ..core.missing import show_public
from ..language.program import Program, read_program
from ..ops.create.creation import zeros_like
from ..tensor.tensor import Tensor
from .counted import CountedOptimizer
from .device_numbers import is_column, overwrite, put, taken
from .fused import direction
from .optimizer import Group
from .options import checked
from .updates import run_program


@functools.cache
def _program(is_mean: bool | None, maximize: bool, decays: bool) -> Program:
    """Return the program of a step. It updates the mean of the parameters if is_mean is true, and
    starts the mean if is_mean is false.

    If is_mean is None, the program starts the mean of parameters whose mu is 1, and updates others.
    """
    d = direction(maximize=maximize, weight_decay=decays)
    mean = "ax + mu * (p - ax)"
    either = f"where(mu == T(1), p, {mean})"
    return read_program(
        f"""
        p = p * keep - eta * {d}
        ax = {either if is_mean is None else mean if is_mean else "p"}
        """,
        ("p", "g", "ax"),
        ("keep", "eta", "decay", "mu"),
    )


class ASGD(CountedOptimizer):
    """Steps with a decreasing rate; "ax" in the state is the parameters' average over the steps.

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
        """Return a value of the state as a Tensor of one element, on the parameter's device."""
        return super().number({**group, "capturable": True}, parameter, value)

    def update_all(self, group: Group, parameters: list[Tensor], gradients: list[Tensor]) -> None:
        """Update parameters of a group."""
        states = [self.state[p] or self._begin(group, p) for p in parameters]
        counts = self.count_all(group, parameters, states)
        if is_column(counts):
            row = self._next_of_all(group, counts[0], states)
            how = bool(group["maximize"]), bool(group["weight_decay"])
            averages = [state["ax"] for state in states]
            run_program(
                _program(None, *how), [parameters, gradients, averages], [row] * len(counts)
            )
            return
        numbers = [
            self._next(group, step, state) for step, state in zip(counts, states, strict=True)
        ]
        columns, at = [parameters, gradients, [state["ax"] for state in states]], 0
        for is_mean, alike in groupby(row[-1] != 1.0 for row in numbers):
            end = at + len([*alike])
            program = _program(is_mean, bool(group["maximize"]), bool(group["weight_decay"]))
            run_program(program, [column[at:end] for column in columns], numbers[at:end])
            at = end

    def _begin(self, group: Group, parameter: Tensor) -> dict[str, Any]:
        state = self.state[parameter]
        state["step"] = self.number(group, parameter)
        state["eta"] = self.number(group, parameter, float(group["lr"]))
        state["mu"] = self.number(group, parameter, 1.0)
        state["ax"] = zeros_like(parameter)
        return state

    def _next_of_all(self, group: Group, step: Tensor, states: list[dict[str, Any]]) -> list[Any]:
        """Do the same as `_next` for several parameters whose counts are a column on the device."""
        lr, lambd = group["lr"], group["lambd"]
        etas, mus = ([state[name] for state in states] for name in ("eta", "mu"))
        eta, mu = taken(etas), taken(mus)
        put(lr / ((1.0 + lambd * lr * step) ** group["alpha"]), etas)
        put(1.0 / (step - group["t0"]).clamp(min=1.0), mus)
        return [1.0 - lambd * eta, eta, group["weight_decay"], mu]

    def _next(self, group: Group, step: Any, state: dict[str, Any]) -> list[Any]:
        """Return the program's numbers for this step, and store eta and mu of the next step."""
        lr, lambd, kept = group["lr"], group["lambd"], [state["eta"], state["mu"]]
        eta, mu = [float(one.item()) for one in kept]
        next_eta = float(lr / ((1.0 + lambd * lr * step) ** group["alpha"]))
        overwrite(kept, [next_eta, 1.0 / max(1.0, float(step) - group["t0"])])
        return [1.0 - lambd * eta, eta, group["weight_decay"], mu]


show_public(__name__)
