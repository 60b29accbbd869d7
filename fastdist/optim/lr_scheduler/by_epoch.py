"""Schedulers whose learning rate is a formula of the epoch."""

from __future__ import annotations

import math
import types
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..optimizer import Optimizer
from .scheduler import LRScheduler, Rate


def _functions(
    optimizer: Optimizer, lr_lambda: Callable[[int], float] | Sequence[Callable[[int], float]]
) -> tuple[Callable[[int], float], ...]:
    count = len(optimizer.param_groups)
    functions = (lr_lambda,) * count if callable(lr_lambda) else tuple(lr_lambda)
    if len(functions) != count:
        raise ValueError(f"Expected {count} lr_lambdas, but got {len(functions)}")
    for function in functions:
        if not callable(function):
            raise TypeError(
                f"lr_lambda should be a function, but got {type(function).__name__}: one for all "
                "groups, or a list with one for each"
            )
    return functions


class _ByFunctions(LRScheduler):
    """Base of schedulers with a user-defined function of the epoch for each group.

    The state dict omits plain functions. For other callable objects, it contains their attributes.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | Sequence[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        self.lr_lambdas = _functions(optimizer, lr_lambda)
        super().__init__(optimizer, last_epoch)

    def _times_factors(self, rates: list[Rate]) -> list[Rate]:
        return [
            rate * function(self.last_epoch)
            for rate, function in zip(rates, self.lr_lambdas, strict=True)
        ]

    def state_dict(self) -> dict[str, Any]:
        """Return the state without the optimiser and without plain functions."""
        kept = [
            None if isinstance(function, types.FunctionType) else dict(vars(function))
            for function in self.lr_lambdas
        ]
        return {**super().state_dict(), "lr_lambdas": kept}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore a state dict."""
        state = dict(state_dict)
        for function, kept in zip(self.lr_lambdas, state.pop("lr_lambdas"), strict=True):
            if kept is not None:
                vars(function).update(kept)
        super().load_state_dict(state)


class LambdaLR(_ByFunctions):
    """Sets the rate to the initial rate times lr_lambda(epoch)."""

    def get_lr(self) -> list[Rate]:
        """Return the rates of all groups at last_epoch."""
        self._warn_unless_in_step()
        return self._times_factors(self.base_lrs)


class MultiplicativeLR(_ByFunctions):
    """Multiplies the rate by lr_lambda(epoch) in each epoch."""

    def get_lr(self) -> list[Rate]:
        """Return the rates of all groups at last_epoch."""
        self._warn_unless_in_step()
        rates = self._present()
        return rates if self._is_initial else self._times_factors(rates)


class StepLR(LRScheduler):
    """Multiplies the rate by gamma every step_size epochs."""

    def __init__(
        self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Rate]:
        """Return the rates of all groups at last_epoch."""
        self._warn_unless_in_step()
        is_due = self.last_epoch and self.last_epoch % self.step_size == 0
        return [rate * self.gamma if is_due else rate for rate in self._present()]

    def _get_closed_form_lr(self) -> list[Rate]:
        factor = self.gamma ** (self.last_epoch // self.step_size)
        return [base * factor for base in self.base_lrs]


class MultiStepLR(LRScheduler):
    """Multiplies the rate by gamma at each milestone."""

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

    def get_lr(self) -> list[Rate]:
        """Return the rates of all groups at last_epoch."""
        self._warn_unless_in_step()
        factor = self.gamma ** self.milestones[self.last_epoch]
        return [rate * factor for rate in self._present()]

    def _get_closed_form_lr(self) -> list[Rate]:
        passed = bisect_right(sorted(self.milestones.elements()), self.last_epoch)
        return [base * self.gamma**passed for base in self.base_lrs]


class ConstantLR(LRScheduler):
    """Multiplies the initial rate by factor during the first total_iters epochs."""

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

    def get_lr(self) -> list[Rate]:
        """Return the rates of all groups at last_epoch."""
        self._warn_unless_in_step()
        rates = self._present()
        if self.last_epoch == 0:
            return [rate * self.factor for rate in rates]
        if self.last_epoch == self.total_iters:
            return [rate * (1.0 / self.factor) for rate in rates]
        return rates

    def _get_closed_form_lr(self) -> list[Rate]:
        factor = 1.0 if self.last_epoch >= self.total_iters else self.factor
        return [base * factor for base in self.base_lrs]


class LinearLR(LRScheduler):
    """Multiplies the initial rate by a factor that changes linearly over total_iters epochs."""

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

    def get_lr(self) -> list[Rate]:
        """Return the rates of all groups at last_epoch."""
        self._warn_unless_in_step()
        rates = self._present()
        if self.last_epoch == 0:
            return [rate * self.start_factor for rate in rates]
        if self._is_initial or self.last_epoch > self.total_iters:
            return rates
        change = self._factor(self.last_epoch) / self._factor(self.last_epoch - 1)
        return [rate * change for rate in rates]

    def _get_closed_form_lr(self) -> list[Rate]:
        factor = self._factor(min(self.last_epoch, self.total_iters))
        return [base * factor for base in self.base_lrs]

    def _factor(self, epoch: int) -> float:
        way = self.end_factor - self.start_factor
        return self.start_factor + way * epoch / self.total_iters


class ExponentialLR(LRScheduler):
    """Multiplies the rate by gamma in each epoch."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Rate]:
        """Return the rates of all groups at last_epoch."""
        self._warn_unless_in_step()
        rates = self._present()
        return rates if self._is_initial else [rate * self.gamma for rate in rates]

    def _get_closed_form_lr(self) -> list[Rate]:
        return [base * self.gamma**self.last_epoch for base in self.base_lrs]


class PolynomialLR(LRScheduler):
    """Multiplies the initial rate by (1 - epoch / total_iters) ** power, until it is 0."""

    def __init__(
        self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1
    ) -> None:
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Rate]:
        """Return the rates of all groups at last_epoch."""
        self._warn_unless_in_step()
        rates = self._present()
        if self._is_initial or self.last_epoch > self.total_iters:
            return rates
        left = self.total_iters - self.last_epoch
        change = (left / (left + 1)) ** self.power
        return [rate * change for rate in rates]

    def _get_closed_form_lr(self) -> list[Rate]:
        gone = min(self.last_epoch, self.total_iters) / self.total_iters
        return [base * (1.0 - gone) ** self.power for base in self.base_lrs]


class CosineAnnealingLR(LRScheduler):
    """Moves the rate along a cosine between the initial rate and eta_min; half a period is T_max.

    Source  Loshchilov and Hutter 2016, "SGDR: Stochastic Gradient Descent with Warm Restarts"
    """

    def __init__(
        self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Rate]:
        """Return the rates of all groups at last_epoch."""
        self._warn_unless_in_step()
        rates, epoch, least = self._present(), self.last_epoch, self.eta_min
        if self._is_initial:
            return rates
        if (epoch - 1 - self.T_max) % (2 * self.T_max) == 0:
            # The present rate is eta_min. The recursive formula below would keep it there.
            rise = (1.0 - math.cos(math.pi / self.T_max)) / 2.0
            return [
                rate + (base - least) * rise
                for rate, base in zip(rates, self.base_lrs, strict=True)
            ]
        before = 1.0 + math.cos(math.pi * (epoch - 1) / self.T_max)
        change = (1.0 + math.cos(math.pi * epoch / self.T_max)) / before
        return [change * (rate - least) + least for rate in rates]

    def _get_closed_form_lr(self) -> list[Rate]:
        return _on_cosine(self.base_lrs, self.eta_min, self.last_epoch / self.T_max)


class CosineAnnealingWarmRestarts(LRScheduler):
    """Lowers the rate along half a cosine to eta_min, then restarts at the initial rate.

    The first period has T_0 epochs. Each other period is T_mult times as long as the one before.

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
        if not isinstance(eta_min, float | int):
            raise ValueError(
                f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}"
            )
        self.T_0 = self.T_i = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        # Epochs since the last restart of the schedule. As in PyTorch, a scheduler created with
        # last_epoch assumes that there was no restart so far. To continue earlier rates, load a
        # state dict, which sets T_cur and T_i.
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Rate]:
        """Return the rates of all groups, T_cur epochs after the last restart."""
        self._warn_unless_in_step()
        return _on_cosine(self.base_lrs, self.eta_min, self.T_cur / self.T_i)

    def step(self, epoch: float | None = None) -> None:
        """Advance to the next epoch, or to a given one, which may be fractional.

        Raises  ValueError for an epoch below 0
        """
        self._step_count += 1
        if epoch is None and self.last_epoch >= 0:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        else:
            epoch = epoch or 0
            if epoch < 0:
                raise ValueError(f"Expected non-negative epoch, but got {epoch}")
            self._jump_to(epoch)
        self.last_epoch = math.floor(epoch)
        with self._within_step():
            rates = self.get_lr()
        self._set(rates)

    def _jump_to(self, epoch: float) -> None:
        self.T_cur = epoch
        if self.T_mult == 1:
            self.T_cur = epoch % self.T_0
            return
        self.T_i = self.T_0
        while self.T_cur >= self.T_i:
            self.T_cur -= self.T_i
            self.T_i *= self.T_mult


def _on_cosine(highest: list[Rate], least: float, part: float) -> list[Rate]:
    """Return the rates on the half cosines from `highest` to `least`, after a fraction `part`."""
    height = (1 + math.cos(math.pi * part)) / 2
    return [least + (high - least) * height for high in highest]
