"""A cyclic learning rate, with a momentum that changes in the opposite direction."""

from __future__ import annotations

import math
import types
from collections.abc import Callable
from typing import Any

from ...core.short_repr import short_repr
from ..optimizer import Optimizer
from . import momentum
from .scheduler import LRScheduler, Rate, one_for_each, require_optimizer, set_in


class CyclicLR(LRScheduler):
    """Raises the rate from base_lr to max_lr and lowers it again, repeatedly; one step per batch.

    Raises  ValueError for an unknown mode, or if cycle_momentum is set and the optimiser has no
            momentum
    Source  Smith 2015, "Cyclical Learning Rates for Training Neural Networks"
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.8,
        max_momentum: float | list[float] = 0.9,
        last_epoch: int = -1,
    ) -> None:
        require_optimizer(optimizer)
        self.optimizer = optimizer
        base_lrs = one_for_each("base_lr", optimizer, base_lr)
        if last_epoch == -1:
            for rate, group in zip(base_lrs, optimizer.param_groups, strict=True):
                set_in(group, "lr", rate)
        self.max_lrs = one_for_each("max_lr", optimizer, max_lr)
        up = float(step_size_up)
        self.total_size = up + (up if step_size_down is None else float(step_size_down))
        self.step_ratio = up / self.total_size
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError(
                f"mode is invalid and scale_fn is None: mode {short_repr(mode)}; known: "
                "triangular, "
                "triangular2, exp_range"
            )
        self.mode, self.gamma = mode, gamma
        self._scale_fn_custom = scale_fn
        self.scale_mode = scale_mode
        if scale_fn is None:
            self.scale_mode = "iterations" if mode == "exp_range" else "cycle"
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.use_beta1 = momentum.uses_beta1(optimizer)
            self.base_momentums, self.max_momentums = momentum.begin(
                optimizer, base_momentum, max_momentum, is_new=last_epoch == -1
            )
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def scale_fn(self, x: float) -> float:
        """Return the factor of the amplitude; x counts cycles or iterations (see scale_mode)."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "triangular":
            return 1.0
        return 1 / (2.0 ** (x - 1)) if self.mode == "triangular2" else float(self.gamma**x)

    def get_lr(self) -> list[Rate]:
        """Return the rates of all groups at last_epoch, and set their momenta."""
        self._warn_unless_in_step()
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        share = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        scale = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            for group, base, most in zip(
                self.optimizer.param_groups, self.base_momentums, self.max_momentums, strict=True
            ):
                momentum.set_momentum(group, most - (most - base) * share * scale)
        return [
            base + (most - base) * share * scale
            for base, most in zip(self.base_lrs, self.max_lrs, strict=True)
        ]

    def state_dict(self) -> dict[str, Any]:
        """Return the state without the optimiser and without plain functions.

        If scale_fn is a callable object, its attributes are included.
        """
        function = self._scale_fn_custom
        is_kept = function is not None and not isinstance(function, types.FunctionType)
        return {
            **super().state_dict(),
            "_scale_fn_custom": dict(vars(function)) if is_kept else None,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore a state dict."""
        state = dict(state_dict)
        kept = state.pop("_scale_fn_custom")
        if kept is not None:
            vars(self._scale_fn_custom).update(kept)
        super().load_state_dict(state)
