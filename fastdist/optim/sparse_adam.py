"""SparseAdam."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from ..ops.creation import zeros_like
from ..ops.sparse import rows_at, with_values
from ..tensor.tensor import Tensor
from .optimizer import Group, Optimizer
from .options import checked


class SparseAdam(Optimizer):
    """Adam for gradients of few rows: what they do not touch, their means included, stays.

    Raises  ValueError for options out of range, RuntimeError for a dense gradient
    Source  Kingma and Ba 2014, "Adam: A Method for Stochastic Optimization"
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        if not lr > 0.0:
            raise ValueError(f"Invalid learning rate: {lr}; it must be more than 0")
        if not eps > 0.0:
            raise ValueError(f"Invalid epsilon value: {eps}; it must be more than 0")
        options = checked(lr=lr, betas=betas, eps=eps, maximize=maximize)
        super().__init__(params, options)

    def update(self, group: Group, parameter: Tensor, gradient: Tensor) -> None:
        """Refuse a dense gradient, which touches all rows."""
        raise RuntimeError(
            "SparseAdam does not support dense gradients, please consider Adam instead"
        )

    def update_sparse(self, group: Group, parameter: Tensor, gradient: Tensor) -> None:
        """Change the rows that the gradient touches, and their means."""
        state = self.state[parameter]
        if not state:
            state["step"] = 0
            state["exp_avg"] = zeros_like(parameter).detach()
            state["exp_avg_sq"] = zeros_like(parameter).detach()
        state["step"] += 1
        g = (-gradient if group["maximize"] else gradient).coalesce()
        if not g._nnz():
            return
        step, (beta1, beta2) = state["step"], group["betas"]
        mean = self._moved(state["exp_avg"], g, g._values(), beta1)
        square = self._moved(state["exp_avg_sq"], g, g._values() ** 2, beta2)
        rate = group["lr"] * math.sqrt(1 - beta2**step) / (1 - beta1**step)
        change = mean / (square.sqrt() + group["eps"])
        parameter.add_(with_values(g, change), alpha=-float(rate))

    @staticmethod
    def _moved(mean: Tensor, places: Any, towards: Any, beta: Any) -> Any:
        """Move a mean's rows at some places towards values; return the rows."""
        before = rows_at(mean, places)
        change = (towards - before) * (1 - beta)
        mean.add_(with_values(places, change))
        return before + change
