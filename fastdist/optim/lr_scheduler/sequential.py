"""Schedulers that combine other schedulers, one after the other or all in each step."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from ..optimizer import Optimizer
from .plateau import ReduceLROnPlateau
from .scheduler import LRScheduler, set_in


class _Joined(LRScheduler):
    """Base of schedulers that combine other schedulers."""

    _schedulers: list[LRScheduler]

    def _require_joinable(self, optimizer: Optimizer, schedulers: Sequence[LRScheduler]) -> None:
        name = type(self).__name__
        if len(schedulers) < 1:
            raise ValueError(f"{name} expects at least one scheduler, but got no scheduler.")
        for number, scheduler in enumerate(schedulers):
            if not hasattr(scheduler, "optimizer"):
                raise TypeError(
                    f"{name} at index {number} should have `optimizer` as its attribute; "
                    f"{type(scheduler).__name__} has none"
                )
            if isinstance(scheduler, ReduceLROnPlateau):
                raise ValueError(
                    f"{name} does not support `ReduceLROnPlateau` scheduler as it requires "
                    "additional kwargs to be specified when calling `step`, but got one at index "
                    f"{number} in the given schedulers sequence."
                )
            if scheduler.optimizer is not optimizer:
                raise ValueError(
                    f"{name} expects all schedulers to belong to the same optimizer, but got "
                    f"scheduler {type(scheduler).__name__} at index {number} has "
                    f"{scheduler.optimizer}, which is different from {type(optimizer).__name__}."
                )

    def state_dict(self) -> dict[str, Any]:
        """Return the state without the optimiser, with a state dict for each scheduler."""
        state = {name: v for name, v in super().state_dict().items() if name != "_schedulers"}
        return {**state, "_schedulers": [scheduler.state_dict() for scheduler in self._schedulers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore a state dict."""
        state = dict(state_dict)
        for scheduler, entry in zip(self._schedulers, state.pop("_schedulers"), strict=True):
            scheduler.load_state_dict(entry)
        self.__dict__.update(state)


class SequentialLR(_Joined):
    """Uses one scheduler until the first milestone, the next until the second, and so on.

    Raises  ValueError unless all schedulers have the same optimiser, and there is one milestone
            fewer than schedulers
    """

    def __init__(
        self,
        optimizer: Optimizer,
        schedulers: Sequence[LRScheduler],
        milestones: Sequence[int],
        last_epoch: int = -1,
    ) -> None:
        self._require_joinable(optimizer, schedulers)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                f"Sequential Schedulers expects number of schedulers provided to be one more than "
                f"the number of milestone points, but got number of schedulers {len(schedulers)} "
                f"and the number of milestones to be equal to {len(milestones)}"
            )
        self.optimizer = optimizer
        self._schedulers = list(schedulers)
        self._milestones = list(milestones)
        self.last_epoch = last_epoch + 1
        # The constructor of each scheduler made a first step. All these steps are undone. Then the
        # first scheduler makes its first step again, from the initial rates.
        for group in optimizer.param_groups:
            set_in(group, "lr", group["initial_lr"])
        self.recursive_undo()
        first = self._schedulers[bisect_right(self._milestones, 0)]
        first._initial_step()
        self._last_lr = first.get_last_lr()

    def recursive_undo(self, sched: LRScheduler | None = None) -> None:
        """Decrease last_epoch by 1 in sched (default: self), or in all schedulers inside it."""
        joined = self if sched is None else sched
        if isinstance(joined, _Joined):
            for below in joined._schedulers:
                self.recursive_undo(below)
        elif hasattr(joined, "last_epoch"):
            joined.last_epoch -= 1

    def step(self) -> None:  # type: ignore[override]
        """Advance to the next epoch."""
        self.last_epoch += 1
        number = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[number]
        if number and self._milestones[number - 1] == self.last_epoch:
            scheduler._update_lr(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()


class ChainedScheduler(_Joined):
    """Applies several schedulers in each step, each to the rate that the previous one has set.

    Raises  ValueError for an empty list, or for schedulers of different optimisers
    """

    def __init__(
        self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None
    ) -> None:
        if len(schedulers) < 1:
            raise ValueError(
                f"{type(self).__name__} expects at least one scheduler to be chained, but got no "
                "scheduler."
            )
        self.optimizer = optimizer or schedulers[0].optimizer
        self._require_joinable(self.optimizer, schedulers)
        self._schedulers = list(schedulers)
        self._last_lr = self._present()

    def step(self) -> None:  # type: ignore[override]
        """Advance to the next epoch."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = self._present()
