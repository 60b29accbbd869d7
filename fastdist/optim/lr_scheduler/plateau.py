"""A learning rate that is lowered when a metric stops improving."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...core.caller_warning import warn_caller
from ..optimizer import Optimizer
from .scheduler import EPOCH_IS_OLD, LRScheduler, require_optimizer, set_in


class ReduceLROnPlateau(LRScheduler):
    """Multiplies the rate by factor when a metric has not improved for more than patience epochs.

    Raises  ValueError for a factor of 1 or more, an unknown mode, or a list of min_lr whose length
            differs from the number of groups
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
        require_optimizer(optimizer)
        self.optimizer = optimizer
        self.factor, self.patience = factor, patience
        self.cooldown, self.eps = cooldown, eps
        self._take_min_lr(min_lr)
        self._take_measure(mode, threshold, threshold_mode)
        self.last_epoch = 0
        self._last_lr = self._present()
        self._reset()

    def _take_min_lr(self, min_lr: float | Sequence[float]) -> None:
        count = len(self.optimizer.param_groups)
        if isinstance(min_lr, list | tuple):
            if len(min_lr) != count:
                raise ValueError(f"expected {count} min_lrs, got {len(min_lr)}")
            self.default_min_lr, self.min_lrs = None, list(min_lr)
        else:
            self.default_min_lr, self.min_lrs = min_lr, [min_lr] * count

    def _take_measure(self, mode: str, threshold: float, threshold_mode: str) -> None:
        if mode not in ("min", "max"):
            raise ValueError(f"mode {mode} is unknown!")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(f"threshold mode {threshold_mode} is unknown!")
        self.mode, self.threshold, self.threshold_mode = mode, threshold, threshold_mode
        self.mode_worse = math.inf if mode == "min" else -math.inf

    def _reset(self) -> None:
        self.best = self.mode_worse
        self.num_bad_epochs = self.cooldown_counter = 0

    def step(  # type: ignore[override]
        self, metrics: Any, epoch: int | None = None
    ) -> None:
        """Take the metric of the last epoch into account, and lower the rate if necessary."""
        measure = float(metrics)
        if epoch is not None:
            warn_caller(EPOCH_IS_OLD)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self._is_better(measure, self.best):
            self.best, self.num_bad_epochs = measure, 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce()
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        self._last_lr = self._present()

    @property
    def in_cooldown(self) -> bool:
        """Whether the rate was lowered within the last `cooldown` epochs."""
        return self.cooldown_counter > 0

    def _reduce(self) -> None:
        groups = self.optimizer.param_groups
        if len(groups) != len(self.min_lrs):
            if self.default_min_lr is None:
                raise RuntimeError(
                    f"The number of param groups in the `optimizer` ({len(groups)}) differs from "
                    f"when `ReduceLROnPlateau` was initialized ({len(self.min_lrs)}), usually due "
                    "to a new param group being added to the optimizer. Please modify the "
                    "`min_lrs` field to match the length of the `optimizer` param groups."
                )
            self.min_lrs = [self.default_min_lr] * len(groups)
        for group, least in zip(groups, self.min_lrs, strict=True):
            before = float(group["lr"])
            reduced = max(before * self.factor, least)
            if before - reduced > self.eps:
                set_in(group, "lr", reduced)

    def _is_better(self, a: float, best: float) -> bool:
        """Return whether the metric `a` is better than `best` by more than the threshold.

        Note    if the threshold is relative and `best` is negative, a slightly worse metric also
                counts as better, as in PyTorch
        """
        way = -self.threshold if self.mode == "min" else self.threshold
        bound = best * (1.0 + way) if self.threshold_mode == "rel" else best + way
        return a < bound if self.mode == "min" else a > bound

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the state from a state dict."""
        super().load_state_dict(state_dict)
        self._take_measure(self.mode, self.threshold, self.threshold_mode)
