"""Adagrad."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any, ClassVar

from ..core.missing import show_public
from ..language.program import Program, read_program
from ..tensor.tensor import Tensor
from .counted import CountedOptimizer
from .fused import direction
from .optimizer import Group
from .options import checked, require_one_way
from .touched_rows import step_rows
from .updates import alike_in_parts, run_program


@functools.cache
def _program(maximize: bool, decays: bool) -> Program:
    d = direction(maximize=maximize, weight_decay=decays)
    return read_program(
        f"""
        v = d = {d}; v + d * d
        p = p - rate * ({d} / (sqrt(v) + eps))
        """,
        ("p", "g", "v"),
        ("rate", "eps", "decay"),
    )


class Adagrad(CountedOptimizer):
    """Steps by the gradient divided by the root of the sum of all squared gradients so far.

    Raises  ValueError for options out of range
    Source  Duchi et al. 2011, "Adaptive Subgradient Methods for Online Learning and Stochastic
            Optimization"
    """

    _gained: ClassVar[dict[str, Any]] = {
        "foreach": None,
        "maximize": False,
        "differentiable": False,
        "fused": None,
    }

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        options = checked(
            lr=lr,
            lr_decay=lr_decay,
            eps=eps,
            weight_decay=weight_decay,
            initial_accumulator_value=initial_accumulator_value,
            foreach=foreach,
            maximize=maximize,
            differentiable=differentiable,
            fused=fused,
        )
        super().__init__(params, options)
        require_one_way(fused=fused, foreach=foreach, differentiable=differentiable)
        self._step_supports_amp_scaling = bool(fused)
        for group in self.param_groups:
            for parameter in group["params"]:
                self._begin(group, parameter)

    def _begin(self, group: Group, parameter: Tensor) -> dict[str, Any]:
        state = self.state[parameter]
        if not state:
            state["step"] = self.number(group, parameter)
            first = self.defaults["initial_accumulator_value"]
            state["sum"] = alike_in_parts(parameter, first)
        return state

    def share_memory(self) -> None:
        """Move the sums of squares to shared memory, so that processes can share the optimiser."""
        for group in self.param_groups:
            for parameter in group["params"]:
                self.state[parameter]["sum"].share_memory_()

    def update_all(self, group: Group, parameters: list[Tensor], gradients: list[Tensor]) -> None:
        """Update parameters of a group."""
        states = [self._begin(group, parameter) for parameter in parameters]
        counts = self.count_all(group, parameters, states)
        lr, decay, lr_decay = group["lr"], group["weight_decay"], group["lr_decay"]
        numbers = {
            step: [lr / (1.0 + (step - 1.0) * lr_decay), group["eps"], decay]
            for step in dict.fromkeys(counts)
        }
        run_program(
            _program(bool(group["maximize"]), bool(decay)),
            [parameters, gradients, [state["sum"] for state in states]],
            [numbers[step] for step in counts],
            self.found_inf,
        )

    def update_sparse(self, group: Group, parameter: Tensor, gradient: Tensor) -> None:
        """Update only the rows for which the sparse gradient has entries."""
        state = self._begin(group, parameter)
        if group["fused"]:
            raise RuntimeError("`fused` does not support sparse grad or complex param")
        if group["weight_decay"]:
            raise RuntimeError("weight_decay option is not compatible with sparse gradients")
        step = self.count(group, parameter, state)
        rate = float(group["lr"] / (1.0 + (step - 1.0) * group["lr_decay"]))
        rate = -rate if group["maximize"] else rate
        step_rows("adagrad", gradient, [state["sum"], parameter], rate, group["eps"])


show_public(__name__)
