"""NAdam."""

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


class NAdam(CountedOptimizer):
    """Adam that looks ahead: steps by the mean of gradients that the next step will have.

    Raises  ValueError for options out of range
    Source  Dozat 2016, "Incorporating Nesterov Momentum into Adam"; Loshchilov and Hutter 2017,
            "Decoupled Weight Decay Regularization", for decoupled_weight_decay
    """

    _gained: ClassVar[dict[str, Any]] = {
        **CountedOptimizer._gained,
        "decoupled_weight_decay": False,
    }
    _numbers: ClassVar[tuple[str, ...]] = ("step", "mu_product")
    _on_devices = "params, mu_products and state_steps must be on supported devices"

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
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
            momentum_decay=momentum_decay,
            decoupled_weight_decay=decoupled_weight_decay,
            maximize=maximize,
            foreach=foreach,
            capturable=capturable,
            differentiable=differentiable,
        )
        super().__init__(params, options)

    def update(self, group: Group, parameter: Tensor, gradient: Tensor) -> None:
        """Change one parameter."""
        state = self.state[parameter]
        if not state:
            state["step"] = self.number(group, parameter)
            state["mu_product"] = self.number(group, parameter, 1.0)
            state["exp_avg"] = zeros_like(parameter)
            state["exp_avg_sq"] = zeros_like(parameter)
        step, (beta1, beta2) = self.count(group, parameter, state), group["betas"]
        lr = group["lr"]
        mean, square = state["exp_avg"], state["exp_avg_sq"]
        d, decay = follow(group, parameter, gradient, mean, square)
        mu, ahead = (
            beta1 * (1.0 - 0.5 * 0.96 ** (at * group["momentum_decay"])) for at in (step, step + 1)
        )
        product = state["mu_product"].mul_(mu)
        as_tensor = group["differentiable"] or group["capturable"]
        product = product.clone() if as_tensor else product.item()
        now = lr * (1.0 - mu) / (1.0 - product)
        then = lr * ahead / (1.0 - product * ahead)
        descend = fused(
            f"s = sqrt(v / left) + eps; p - now * ({d} / s) - then * (m / s)",
            *("p", "g", "m", "v", "left", "eps", "now", "then", "decay"),
        )
        left = 1.0 - beta2**step
        descend(parameter, gradient, mean, square, left, group["eps"], now, then, decay)
