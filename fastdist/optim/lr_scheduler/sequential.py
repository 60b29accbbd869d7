"""Schedulers one after the other."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from ..optimizer import Optimizer
from .scheduler import LRScheduler


class SequentialLR(LRScheduler):
    """One scheduler until the first milestone, the next until the second, and so on.

    Raises  ValueError unless there is one milestone fewer than schedulers, all of one optimiser
    """

    def __init__(
        self,
        optimizer: Optimizer,
        schedulers: Sequence[LRScheduler],
        milestones: Sequence[int],
        last_epoch: int = -1,
    ) -> None:
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                f"Sequential Schedulers expects number of schedulers provided to be one more than "
                f"the number of milestone points, but got number of schedulers {len(schedulers)} "
                f"and the number of milestones to be equal to {len(milestones)}"
            )
        if any(scheduler.optimizer is not optimizer for scheduler in schedulers):
            raise ValueError("SequentialLR: a scheduler belongs to another optimizer")
        self.optimizer = optimizer
        self._schedulers = list(schedulers)
        self._milestones = list(milestones)
        self.last_epoch = last_epoch + 1
        self.base_lrs = [group["initial_lr"] for group in optimizer.param_groups]
        # Each scheduler made its first step when it was made: the rate is the first one's again.
        self._set(self.base_lrs)
        self._schedulers[0].last_epoch = -1
        self._schedulers[0].step()
        self._last_lr = self._schedulers[0].get_last_lr()

    def step(self) -> None:
        """Go to the next epoch."""
        self.last_epoch += 1
        number = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[number]
        if number and self._milestones[number - 1] == self.last_epoch:
            scheduler.restart()
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()

    def state_dict(self) -> dict[str, Any]:
        """Return everything but the optimiser, with a state dict for each scheduler."""
        state = {name: v for name, v in super().state_dict().items() if name != "_schedulers"}
        return {**state, "_schedulers": [scheduler.state_dict() for scheduler in self._schedulers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a state dict."""
        state = dict(state_dict)
        for scheduler, entry in zip(self._schedulers, state.pop("_schedulers"), strict=True):
            scheduler.load_state_dict(entry)
        self.__dict__.update(state)
