"""The one-cycle policy: the learning rate rises once and falls once over all of training."""

from __future__ import annotations

import math
from typing import Any

from ..optimizer import Optimizer
from . import momentum
from .scheduler import LRScheduler, Rate, one_for_each, require_optimizer


class OneCycleLR(LRScheduler):
    """Raises the rate to max_lr, then lowers it far below the initial rate; one step per batch.

    Raises  ValueError for options out of range, for a step after the last one, or if cycle_momentum
            is set and the optimiser has no momentum
    Source  Smith and Topin 2017, "Super-Convergence: Very Fast Training of Neural Networks Using
            Large Learning Rates"
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        require_optimizer(optimizer)
        self.optimizer = optimizer
        self.total_steps = _count_of_steps(total_steps, epochs, steps_per_epoch)
        if not isinstance(pct_start, float) or not 0 <= pct_start <= 1:
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        self._schedule_phases = _phases(self.total_steps, pct_start, three_phase=three_phase)
        self._anneal_func_type = anneal_strategy
        highest = one_for_each("max_lr", optimizer, max_lr)
        if last_epoch == -1:
            for group, high in zip(optimizer.param_groups, highest, strict=True):
                group["initial_lr"] = high / div_factor
                group["max_lr"] = high
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.use_beta1 = momentum.uses_beta1(optimizer)
            momentum.begin(optimizer, base_momentum, max_momentum, is_new=last_epoch == -1)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Rate]:
        """Return the rates of all groups at last_epoch, and set their momenta."""
        self._warn_unless_in_step()
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(
                f"Tried to step {step} times. The specified number of total steps is "
                f"{self.total_steps}"
            )
        begin = 0.0
        for phase in self._schedule_phases[:-1]:
            if step <= phase["end_step"]:
                break
            begin = phase["end_step"]
        else:
            phase = self._schedule_phases[-1]
        share = (step - begin) / (phase["end_step"] - begin)
        rates = []
        for group in self.optimizer.param_groups:
            rates.append(self._between(group, phase["start_lr"], phase["end_lr"], share))
            if self.cycle_momentum:
                names = phase["start_momentum"], phase["end_momentum"]
                momentum.set_momentum(group, self._between(group, *names, share))
        return rates

    def _between(self, group: dict[str, Any], start: str, end: str, share: float) -> Rate:
        first, last = group[start], group[end]
        if self._anneal_func_type == "linear":
            return (last - first) * share + first
        return last + (first - last) / 2.0 * (math.cos(math.pi * share) + 1)


def _count_of_steps(
    total_steps: int | None, epochs: int | None, steps_per_epoch: int | None
) -> int:
    if total_steps is not None:
        _require_positive("total_steps", total_steps)
        return total_steps
    if epochs is None or steps_per_epoch is None:
        raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
    _require_positive("epochs", epochs)
    _require_positive("steps_per_epoch", steps_per_epoch)
    return epochs * steps_per_epoch


def _require_positive(name: str, count: Any) -> None:
    if not isinstance(count, int) or count <= 0:
        raise ValueError(f"Expected positive integer {name}, but got {count}")


def _phases(total: int, share: float, *, three_phase: bool) -> list[dict[str, Any]]:
    def phase(end_step: float, lr: tuple[str, str], momentum: tuple[str, str]) -> dict[str, Any]:
        return {
            "end_step": end_step,
            "start_lr": lr[0],
            "end_lr": lr[1],
            "start_momentum": momentum[0],
            "end_momentum": momentum[1],
        }

    down, up = ("max_momentum", "base_momentum"), ("base_momentum", "max_momentum")
    rise = phase(float(share * total) - 1, ("initial_lr", "max_lr"), down)
    if not three_phase:
        return [rise, phase(total - 1, ("max_lr", "min_lr"), up)]
    return [
        rise,
        phase(float(2 * share * total) - 2, ("max_lr", "initial_lr"), up),
        phase(total - 1, ("initial_lr", "min_lr"), ("max_momentum", "max_momentum")),
    ]
