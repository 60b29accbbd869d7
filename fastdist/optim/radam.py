"""RAdam."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from ..ops.creation import zeros_like
from ..tensor.tensor import Tensor
from .counted import CountedOptimizer
from .fused import fused
from .moments import follow
from .optimizer import Group
from .options import checked

_descend = fused("p - rate * (m / left)", "p", "m", "left", "rate")
_adapt = fused(
    "p - m / left * lr * (root / (sqrt(v) + eps)) * trust",
    *("p", "m", "v", "left", "lr", "root", "eps", "trust"),
)


class RAdam(CountedOptimizer):
    """Adam that follows the mean alone until the mean of squares is of enough gradients to trust.

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

    def update(self, group: Group, parameter: Tensor, gradient: Tensor) -> None:
        """Change one parameter."""
        state = self.state[parameter]
        if not state:
            state["step"] = self.number(group, parameter)
            state["exp_avg"] = zeros_like(parameter)
            state["exp_avg_sq"] = zeros_like(parameter)
        step, (beta1, beta2) = self.count(group, parameter, state), group["betas"]
        lr = group["lr"]
        mean, square = state["exp_avg"], state["exp_avg_sq"]
        follow(group, parameter, gradient, mean, square)
        left1, left2 = 1.0 - beta1**step, 1.0 - beta2**step
        longest = 2.0 / (1.0 - beta2) - 1.0
        length = longest - 2.0 * step * beta2**step / left2
        if length <= 5.0:
            _descend(parameter, mean, left1, lr)
            return
        trust = (
            ((length - 4.0) * (length - 2.0) * longest)
            / ((longest - 4.0) * (longest - 2.0) * length)
        ) ** 0.5
        _adapt(parameter, mean, square, left1, lr, left2**0.5, group["eps"], trust)
