"""Rprop."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..ops.creation import full_like, zeros_like
from ..tensor.tensor import Tensor
from .counted import CountedOptimizer
from .fused import direction, fused
from .optimizer import Group
from .options import checked


class Rprop(CountedOptimizer):
    """Steps by the sign of the gradient: further while it stays, less far once it has turned.

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

    def update(self, group: Group, parameter: Tensor, gradient: Tensor) -> None:
        """Change one parameter."""
        state = self.state[parameter]
        if not state:
            state["step"] = self.number(group, parameter)
            state["prev"] = zeros_like(parameter)
            state["step_size"] = full_like(parameter, float(group["lr"])).detach()
        self.count(group, parameter, state)
        (less, more), (least, most) = group["etas"], group["step_sizes"]
        before, size = state["prev"], state["step_size"]
        turned = f"d = {direction(maximize=group['maximize'], weight_decay=0)}; turn = d * old"
        # Where the way turned, the gradient counts as 0: no step, and no turn the next time.
        kept = "where(turn < T(0), T(0), d)"
        # Not minimum and maximum: at a bound, the gradient of a step size is the whole one.
        resize = fused(
            f"{turned}; s = size * where(turn > T(0), more, where(turn < T(0), less, where(turn =="
            " T(0), T(1), turn))); where(s < least, least, where(s > most, most, s))",
            *("size", "g", "old", "less", "more", "least", "most"),
        )
        resize(size, gradient, before, less, more, least, most)
        descend = fused(f"{turned}; p - sign({kept}) * size", "p", "g", "old", "size")
        descend(parameter, gradient, before, size)
        fused(f"{turned}; {kept}", "old", "g")(before, gradient)
