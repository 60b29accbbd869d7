"""LRScheduler, the base class."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from ..optimizer import Optimizer

EPOCH_IS_OLD = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where "
    "possible. Please use `scheduler.step()` to step the scheduler. During the deprecation, if "
    "epoch is different from None, the closed form is used instead of the new chainable form, "
    "where available."
)


class LRScheduler:
    """Sets the learning rate of each group of an optimiser; call step after each epoch.

    A subclass implements `get_lr()`: the rates of the groups at epoch last_epoch, made of those
    that were set for the epoch before. What a user, or another scheduler, did to them thus stays.
    Where there is a formula of the epoch alone, it is `_get_closed_form_lr()`, as in PyTorch.

    Raises  KeyError if last_epoch is given and a group has no initial_lr
    Note    one that is made with last_epoch takes the rates that it finds for those of that epoch
    """

    last_epoch: int
    # Whether the step under way is the one that makes the scheduler: its rates are there already.
    _is_initial = False
    _step_count = 0

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        self.optimizer = optimizer
        for number, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", group["lr"])
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{number}] when resuming "
                    "an optimizer: load its state dict first"
                )
        self.base_lrs = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._initial_step()

    def _initial_step(self) -> None:
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def get_lr(self) -> list[float]:
        """Return the rates of all groups at last_epoch, made of the present ones."""
        raise NotImplementedError(f"{type(self).__name__} does not implement get_lr")

    def step(self, epoch: Any = None) -> None:
        """Go to the next epoch, or, as PyTorch's older scripts do, to a given one."""
        self._step_count += 1
        if epoch is not None:
            warnings.warn(EPOCH_IS_OLD, UserWarning, stacklevel=2)
        self._update_lr(epoch)

    def _update_lr(self, epoch: Any = None) -> None:
        """Set the rates of the next epoch, or those that the closed form has for a given one."""
        rates: Callable[[], list[float]] = self.get_lr
        if epoch is None:
            self.last_epoch += 1
        else:
            self.last_epoch = epoch
            rates = getattr(self, "_get_closed_form_lr", rates)
        self._set(rates())

    def _present(self) -> list[float]:
        """Return the rates that the groups have now."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def _set(self, rates: list[float]) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
        self._last_lr = self._present()

    def get_last_lr(self) -> list[float]:
        """Return the rates that step set."""
        return self._last_lr

    def state_dict(self) -> dict[str, Any]:
        """Return everything but the optimiser and functions."""
        return {
            name: value
            for name, value in self.__dict__.items()
            if name != "optimizer" and not callable(value)
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a state dict."""
        self.__dict__.update(state_dict)
