"""Rates that follow from the epoch by a formula."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..optimizer import Group, Optimizer
from .scheduler import LRScheduler


def _functions(
    optimizer: Optimizer, lr_lambda: Callable[[int], float] | Sequence[Callable[[int], float]]
) -> tuple[Callable[[int], float], ...]:
    count = len(optimizer.param_groups)
    functions = (lr_lambda,) * count if callable(lr_lambda) else tuple(lr_lambda)
    if len(functions) != count:
        raise ValueError(f"Expected {count} lr_lambdas, but got {len(functions)}")
    return functions


class _ByFunctions(LRScheduler):
    """What has a function of the epoch for each group; functions are not saved."""

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | Sequence[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        self.lr_lambdas = _functions(optimizer, lr_lambda)
        super().__init__(optimizer, last_epoch)

    def _factors(self) -> list[float]:
        return [function(self.last_epoch) for function in self.lr_lambdas]

    def state_dict(self) -> dict[str, Any]:
        """Return everything but the optimiser and functions."""
        return {name: value for name, value in super().state_dict().items() if name != "lr_lambdas"}


class LambdaLR(_ByFunctions):
    """The first rate times lr_lambda(epoch)."""

    def get_lr(self) -> list[float]:
        """Return the rates of all groups at last_epoch."""
        return [base * factor for base, factor in zip(self.base_lrs, self._factors(), strict=True)]


class MultiplicativeLR(_ByFunctions):
    """The rate times lr_lambda(epoch), each epoch anew."""

    def get_lr(self) -> list[float]:
        """Return the rates of all groups at last_epoch."""
        rates = [group["lr"] for group in self.optimizer.param_groups]
        return rates if self.last_epoch == 0 else self._multiplied(rates)

    def restart(self) -> None:
        """Be at epoch 0, from the present rates on, whoever set them."""
        self.last_epoch = 0
        self._set(self._multiplied([group["lr"] for group in self.optimizer.param_groups]))

    def _multiplied(self, rates: list[float]) -> list[float]:
        return [rate * factor for rate, factor in zip(rates, self._factors(), strict=True)]


class StepLR(LRScheduler):
    """The rate times gamma every step_size epochs."""

    def __init__(
        self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def rate(self, group: Group, base_lr: float) -> float:
        """Return a group's rate at last_epoch."""
        is_due = self.last_epoch and self.last_epoch % self.step_size == 0
        return float(group["lr"] * (self.gamma if is_due else 1.0))


class MultiStepLR(LRScheduler):
    """The rate times gamma at each of the milestones."""

    def __init__(
        self,
        optimizer: Optimizer,
        milestones: Iterable[int],
        gamma: float = 0.1,
        last_epoch: int = -1,
    ) -> None:
        self.milestones = Counter(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def rate(self, group: Group, base_lr: float) -> float:
        """Return a group's rate at last_epoch."""
        return float(group["lr"] * self.gamma ** self.milestones[self.last_epoch])


class ConstantLR(LRScheduler):
    """The rate times factor, for the first total_iters epochs."""

    def __init__(
        self,
        optimizer: Optimizer,
        factor: float = 1.0 / 3,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0.0 <= factor <= 1.0:
            raise ValueError("Constant multiplicative factor expected to be between 0 and 1.")
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def rate(self, group: Group, base_lr: float) -> float:
        """Return a group's rate at last_epoch."""
        lr: float = group["lr"]
        if self.last_epoch == 0:
            return lr * self.factor
        return lr / self.factor if self.last_epoch == self.total_iters else lr


class LinearLR(LRScheduler):
    """The rate times a factor that goes from start_factor to end_factor in total_iters epochs."""

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0.0 < start_factor <= 1.0:
            raise ValueError(
                "Starting multiplicative factor expected to be greater than 0 and less or equal "
                "to 1."
            )
        if not 0.0 <= end_factor <= 1.0:
            raise ValueError("Ending multiplicative factor expected to be between 0 and 1.")
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def rate(self, group: Group, base_lr: float) -> float:
        """Return a group's rate at last_epoch."""
        lr: float = group["lr"]
        if self.last_epoch == 0:
            return lr * self.start_factor
        if self.last_epoch > self.total_iters:
            return lr
        return lr * self._factor(self.last_epoch) / self._factor(self.last_epoch - 1)

    def _factor(self, epoch: int) -> float:
        way = self.end_factor - self.start_factor
        return self.start_factor + way * epoch / self.total_iters


class ExponentialLR(LRScheduler):
    """The rate times gamma, each epoch anew."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def rate(self, group: Group, base_lr: float) -> float:
        """Return a group's rate at last_epoch."""
        return float(group["lr"] * (self.gamma if self.last_epoch else 1.0))


class PolynomialLR(LRScheduler):
    """The rate times (1 - epoch / total_iters) ** power, 0 afterwards."""

    def __init__(
        self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1
    ) -> None:
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def rate(self, group: Group, base_lr: float) -> float:
        """Return a group's rate at last_epoch."""
        lr: float = group["lr"]
        if not 0 < self.last_epoch <= self.total_iters:
            return lr
        left = self.total_iters - self.last_epoch
        return float(lr * (left / (left + 1)) ** self.power)


class CosineAnnealingLR(LRScheduler):
    """A rate that swings between the first one and eta_min, half a cosine in T_max epochs.

    Source  Loshchilov and Hutter 2016, "SGDR: Stochastic Gradient Descent with Warm Restarts"
    """

    def __init__(
        self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def rate(self, group: Group, base_lr: float) -> float:
        """Return a group's rate at last_epoch."""
        lr, epoch = float(group["lr"]), self.last_epoch
        if epoch == 0:
            return lr
        before = 1.0 + math.cos(math.pi * (epoch - 1) / self.T_max)
        if (epoch - 1 - self.T_max) % (2 * self.T_max) == 0:
            # The rate is eta_min, from which no ratio leads away.
            return lr + (base_lr - self.eta_min) * (1.0 - math.cos(math.pi / self.T_max)) / 2.0
        now = 1.0 + math.cos(math.pi * epoch / self.T_max)
        return now / before * (lr - self.eta_min) + self.eta_min


class CosineAnnealingWarmRestarts(LRScheduler):
    """A rate that falls by half a cosine to eta_min and jumps back: after T_0 epochs, then after
    T_mult times as many each time.

    Source  Loshchilov and Hutter 2016, "SGDR: Stochastic Gradient Descent with Warm Restarts"
    """

    def __init__(
        self,
        optimizer: Optimizer,
        T_0: int,
        T_mult: int = 1,
        eta_min: float = 0.0,
        last_epoch: int = -1,
    ) -> None:
        if T_0 <= 0 or not isinstance(T_0, int):
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        self.T_0 = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def rate(self, group: Group, base_lr: float) -> float:
        """Return a group's rate at last_epoch."""
        since, length = self.last_epoch, self.T_0
        while since >= length:
            since -= length
            length *= self.T_mult
            if self.T_mult == 1:
                since %= length
        return (
            self.eta_min + (base_lr - self.eta_min) * (1 + math.cos(math.pi * since / length)) / 2
        )
