"""LRScheduler, the base class."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..optimizer import Group, Optimizer


class LRScheduler:
    """Sets the learning rate of each group of an optimiser; call step after each epoch.

    A subclass implements `rate(group, base_lr)`: the rate at epoch last_epoch of a group whose rate
    was set for the epoch before. What a user, or another scheduler, did to the rate thus stays.

    Raises  KeyError if last_epoch is given and a group has no initial_lr
    """

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
        self.step()

    def rate(self, group: Group, base_lr: float) -> float:
        """Return a group's rate at last_epoch."""
        raise NotImplementedError(f"{type(self).__name__} does not implement rate")

    def get_lr(self) -> list[float]:
        """Return the rates of all groups at last_epoch, made of the present ones."""
        groups = self.optimizer.param_groups
        return [self.rate(group, base) for group, base in zip(groups, self.base_lrs, strict=True)]

    def step(self) -> None:
        """Go to the next epoch."""
        self.last_epoch += 1
        self._set(self.get_lr())

    def restart(self) -> None:
        """Be at epoch 0, as when this was made, from the first rates on."""
        self._set(self.base_lrs)
        self.last_epoch = -1
        self.step()

    def _set(self, rates: Iterable[float]) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
        self._last_lr = [group["lr"] for group in self.optimizer.param_groups]

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
