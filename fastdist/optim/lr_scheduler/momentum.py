"""The momentum that schedulers cycle: the option `momentum`, or the first of `betas`."""

from __future__ import annotations

from typing import Any

from ..optimizer import Optimizer
from .scheduler import one_for_each


def uses_beta1(optimizer: Optimizer) -> bool:
    """Return True if the momentum is the first of `betas`, and False if it is `momentum`.

    Raises  ValueError if the optimiser has neither option
    """
    if "betas" in optimizer.defaults:
        return True
    if "momentum" not in optimizer.defaults:
        raise ValueError(
            "optimizer must support momentum or beta1 with `cycle_momentum` option enabled; "
            f"{type(optimizer).__name__} has neither: give cycle_momentum=False"
        )
    return False


def begin(
    optimizer: Optimizer, base: Any, most: Any, *, is_new: bool
) -> tuple[list[float], list[float]]:
    """Return the bounds of each group's momentum; if is_new, set it to its upper bound."""
    bases = one_for_each("base_momentum", optimizer, base)
    highest = one_for_each("max_momentum", optimizer, most)
    if is_new:
        for group, low, high in zip(optimizer.param_groups, bases, highest, strict=True):
            set_momentum(group, high)
            group["max_momentum"], group["base_momentum"] = high, low
    return bases, highest


def set_momentum(group: dict[str, Any], momentum: float) -> None:
    """Set a group's momentum."""
    if "betas" in group:
        group["betas"] = (momentum, *group["betas"][1:])
    else:
        group["momentum"] = momentum
