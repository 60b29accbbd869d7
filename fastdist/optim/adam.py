"""Adam and AdamW."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from ..ops.creation import zeros_like
from ..tensor.tensor import Tensor
from .fused import direction, fused
from .optimizer import Group, Optimizer, how, require_not_negative

_shrink = fused("p * keep", "p", "keep")
_raise_to = fused("maximum(top, v)", "top", "v")
_descend = fused("p - rate * (m / (sqrt(v) / root + eps))", "p", "m", "v", "rate", "root", "eps")


class Adam(Optimizer):
    """Steps by the running mean of gradients over the root of the running mean of their squares.

    Raises  ValueError for options out of range
    Source  Kingma and Ba 2014, "Adam: A Method for Stochastic Optimization"; Reddi et al. 2018,
            "On the Convergence of Adam and Beyond", for amsgrad
    Note    weight_decay adds weight_decay * p to the gradient, unless decoupled_weight_decay;
            foreach, fused and capturable change nothing
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        require_not_negative("learning rate", lr)
        require_not_negative("epsilon value", eps)
        require_not_negative("weight_decay value", weight_decay)
        for number, beta in enumerate(betas):
            if not 0.0 <= beta < 1.0:
                raise ValueError(
                    f"Invalid beta parameter at index {number}: {beta}; it must be in [0, 1)"
                )
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
            **how(
                foreach=foreach, capturable=capturable, differentiable=differentiable, fused=fused
            ),
            "decoupled_weight_decay": decoupled_weight_decay,
        }
        super().__init__(params, defaults)

    def update(self, group: Group, parameter: Tensor, gradient: Tensor) -> None:
        """Change one parameter."""
        state = self.state[parameter]
        if not state:
            state["step"] = 0.0
            state["exp_avg"] = zeros_like(parameter)
            state["exp_avg_sq"] = zeros_like(parameter)
            if group["amsgrad"]:
                state["max_exp_avg_sq"] = zeros_like(parameter)
        state["step"] += 1.0
        step, lr, (beta1, beta2) = float(state["step"]), group["lr"], group["betas"]
        decay = group["weight_decay"]
        if decay and group["decoupled_weight_decay"]:
            _shrink(parameter, 1.0 - lr * decay)
            decay = 0.0
        d = direction(maximize=group["maximize"], weight_decay=decay)
        mean, square = state["exp_avg"], state["exp_avg_sq"]
        blend = fused(f"m + new * ({d} - m)", "m", "g", "p", "new", "decay")
        blend(mean, gradient, parameter, 1.0 - beta1, decay)
        spread = fused(f"d = {d}; v * beta + new * d * d", "v", "g", "p", "beta", "new", "decay")
        spread(square, gradient, parameter, beta2, 1.0 - beta2, decay)
        if group["amsgrad"]:
            _raise_to(state["max_exp_avg_sq"], square)
            square = state["max_exp_avg_sq"]
        rate = lr / (1.0 - beta1**step)
        root = math.sqrt(1.0 - beta2**step)
        _descend(parameter, mean, square, rate, root, group["eps"])


class AdamW(Adam):
    """Adam whose weight_decay shrinks the parameters by themselves, apart from their gradients.

    Raises  ValueError for options out of range
    Source  Loshchilov and Hutter 2017, "Decoupled Weight Decay Regularization"
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=True,
        )
