"""A rate that follows from how training goes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..optimizer import Optimizer


class ReduceLROnPlateau:
    """The rate times factor whenever a measure has not become better for more than patience
    epochs.

    Raises  ValueError for a factor of 1 or more, or an unknown mode
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float | Sequence[float] = 0.0,
        eps: float = 1e-8,
    ) -> None:
        if factor >= 1.0:
            raise ValueError("Factor should be < 1.0.")
        if mode not in ("min", "max"):
            raise ValueError(f"mode {mode} is unknown!")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(f"threshold mode {threshold_mode} is unknown!")
        count = len(optimizer.param_groups)
        self.optimizer = optimizer
        self.mode, self.factor, self.patience = mode, factor, patience
        self.threshold, self.threshold_mode = threshold, threshold_mode
        self.cooldown, self.eps = cooldown, eps
        self.min_lrs = [min_lr] * count if isinstance(min_lr, float | int) else list(min_lr)
        self.best = math.inf if mode == "min" else -math.inf
        self.num_bad_epochs = self.cooldown_counter = self.last_epoch = 0
        self._last_lr = [group["lr"] for group in optimizer.param_groups]

    def step(self, metrics: Any) -> None:
        """Tell the measure of the epoch that has ended."""
        measure = float(metrics)
        self.last_epoch += 1
        if self.is_better(measure):
            self.best, self.num_bad_epochs = measure, 0
        else:
            self.num_bad_epochs += 1
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            for group, least in zip(self.optimizer.param_groups, self.min_lrs, strict=True):
                reduced = max(group["lr"] * self.factor, least)
                if group["lr"] - reduced > self.eps:
                    group["lr"] = reduced
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        self._last_lr = [group["lr"] for group in self.optimizer.param_groups]

    def is_better(self, measure: float) -> bool:
        """Return whether a measure beats the best one by more than the threshold.

        Note    a relative threshold of a negative best one lets what is a little worse count as
                better, as in PyTorch
        """
        if math.isinf(self.best):
            bound = self.best
        else:
            margin = self.threshold * (self.best if self.threshold_mode == "rel" else 1.0)
            bound = self.best - margin if self.mode == "min" else self.best + margin
        return measure < bound if self.mode == "min" else measure > bound

    def get_last_lr(self) -> list[float]:
        """Return the rates that step set."""
        return self._last_lr

    def state_dict(self) -> dict[str, Any]:
        """Return everything but the optimiser."""
        return {name: value for name, value in self.__dict__.items() if name != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a state dict."""
        self.__dict__.update(state_dict)
