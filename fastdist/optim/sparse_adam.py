"""SparseAdam."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from ..core.missing import show_public
from ..ops.create.creation import zeros_like
from ..tensor.tensor import Tensor
from .optimizer import Group, Optimizer
from .options import checked, require_not_captured
from .touched_rows import step_rows


class SparseAdam(Optimizer):
    """Adam for sparse gradients: rows without entries, and their running means, do not change.

    Raises  ValueError for options out of range, RuntimeError for a dense gradient
    Source  Kingma and Ba 2014, "Adam: A Method for Stochastic Optimization"
    """

    steps_complex = False

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
        """Raise RuntimeError, because a dense gradient would update all rows."""
        raise RuntimeError(
            "SparseAdam does not support dense gradients, please consider Adam instead"
        )

    def update_sparse(self, group: Group, parameter: Tensor, gradient: Tensor) -> None:
        """Update the rows for which the sparse gradient has entries, and their running means."""
        require_not_captured(self, [parameter])
        state = self.state[parameter]
        if not state:
            state["step"] = 0
            state["exp_avg"] = zeros_like(parameter).detach()
            state["exp_avg_sq"] = zeros_like(parameter).detach()
        state["step"] += 1
        step, (beta1, beta2) = state["step"], group["betas"]
        rate = float(group["lr"] * math.sqrt(1 - beta2**step) / (1 - beta1**step))
        means = state["exp_avg"], state["exp_avg_sq"]
        g = -gradient if group["maximize"] else gradient
        numbers = rate, float(beta1), float(beta2), group["eps"]
        step_rows("sparse_adam", g, [*means, parameter], *numbers)


show_public(__name__)
