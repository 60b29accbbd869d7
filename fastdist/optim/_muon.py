"""Muon."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from ..core.dtypes import float32
from ..ops.create.creation import zeros_like
from ..tensor.tensor import Tensor
from .fused import fused
from .optimizer import Group, Optimizer

_blend = fused("v + new * (g - v)", "v", "g", "new")
_look_ahead = fused("v + momentum * (b - v)", "v", "b", "momentum")
_descend = fused("p * keep - rate * o", "p", "o", "keep", "rate")


class Muon(Optimizer):
    """Updates each matrix by the orthogonal matrix nearest to the running mean of its gradients.

    Raises  ValueError for options out of range, and for parameters that are not matrices
    Source  Jordan et al. 2024, "Muon: An optimizer for hidden layers in neural networks"; Liu et
            al. 2025, "Muon is Scalable for LLM Training", for adjust_lr_fn="match_rms_adamw"
    Note    the orthogonal matrix is computed in float32; PyTorch uses bfloat16, which is less exact
    """

    steps_complex = False

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.7750, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        _require_from_zero("Learning rate", lr)
        _require_from_zero("momentum", momentum)
        _require_from_zero("weight decay", weight_decay)
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise ValueError(
                f"Adjust learning rate function {adjust_lr_fn} is not supported; known: original, "
                "match_rms_adamw"
            )
        defaults = {
            "lr": lr,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "nesterov": nesterov,
            "ns_coefficients": ns_coefficients,
            "eps": eps,
            "ns_steps": ns_steps,
            "adjust_lr_fn": adjust_lr_fn,
        }
        super().__init__(params, defaults)
        for parameter in self._parameters():
            if parameter.ndim != 2:
                raise ValueError(
                    "Muon only supports 2D parameters whereas we found a parameter with size: "
                    f"{parameter.size()}; give those to AdamW"
                )

    def update(self, group: Group, parameter: Tensor, gradient: Tensor) -> None:
        """Update one parameter."""
        state, momentum = self.state[parameter], group["momentum"]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = zeros_like(parameter)
        mean = state["momentum_buffer"]
        _blend(mean, gradient, 1.0 - momentum)
        if group["nesterov"]:
            ahead = gradient.detach().clone()
            _look_ahead(ahead, mean, momentum)
        else:
            ahead = mean
        orthogonal = _orthogonal(ahead, group["ns_coefficients"], group["ns_steps"], group["eps"])
        lr = group["lr"]
        rate = lr * _ratio(group["adjust_lr_fn"], *parameter.shape)
        keep = 1.0 - lr * group["weight_decay"]
        _descend(parameter, orthogonal.to(parameter.dtype), keep, rate)


def _orthogonal(
    matrix: Tensor, coefficients: tuple[float, float, float], steps: int, eps: float
) -> Tensor:
    """Return an approximation of U V^T for a matrix with the singular value decomposition U S V^T.

    The singular values of the result are between 0.5 and 1.5.

    Source  the Newton-Schulz iteration, with the quintic polynomial that is steepest at 0
    """
    if steps >= 100:
        raise ValueError(
            f"Number of steps must be less than 100 for computational efficiency; got {steps}"
        )
    if len(coefficients) != 3:
        raise ValueError("Coefficients must be a tuple of exactly 3 values")
    a, b, c = coefficients
    rows, columns = matrix.shape
    x = matrix.to(float32)
    if rows > columns:
        x = x.T
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.T
        x = a * x + (b * gram + c * (gram @ gram)) @ x
    return x.T if rows > columns else x


def _ratio(how: str | None, rows: int, columns: int) -> float:
    if how == "match_rms_adamw":
        return 0.2 * math.sqrt(max(rows, columns))
    return math.sqrt(max(1.0, rows / columns))


def _require_from_zero(what: str, value: Any) -> None:
    if not value >= 0.0:
        raise ValueError(f"{what} should be >= 0 but is: {value}")
