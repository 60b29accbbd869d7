"""PostLocalSGDOptimizer: an optimizer whose steps end with a mean over the members."""

from __future__ import annotations

import warnings
from typing import Any

from ..optim.optimizer import Optimizer
from .algorithms.model_averaging.averagers import ModelAverager

__all__ = ["PostLocalSGDOptimizer"]


class PostLocalSGDOptimizer(Optimizer):
    """Steps another optimizer, and then averages its parameters when an averager says so.

    Args:
        optim: The optimizer of this member.
        averager: Decides in which steps parameters are averaged: a PeriodicModelAverager.
    """

    def __init__(self, optim: Optimizer, averager: ModelAverager) -> None:
        self.optim, self.averager = optim, averager
        # The other's own list: schedulers change it, and groups are added to it.
        self.param_groups = optim.param_groups
        self.defaults = optim.defaults

    @property
    def state(self) -> Any:  # type: ignore[override]
        """The state of the other optimizer."""
        return self.optim.state

    def __repr__(self) -> str:
        return repr(self.optim)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the other optimizer, and the averager's "step"."""
        return {**self.optim.state_dict(), "step": self.averager.step}

    def load_state_dict(self, state_dict: Any) -> None:
        """Load a state; one without "step" begins the averager's count at 0, with a warning."""
        self.optim.load_state_dict(state_dict)
        # The other has new groups now.
        self.param_groups = self.optim.param_groups
        if "step" in state_dict:
            self.averager.step = state_dict["step"]
            return
        warnings.warn(
            "Loaded state dict does not contain a step counter for an averager. Setting step "
            "counter to 0.",
            stacklevel=2,
        )
        self.averager.step = 0

    def step(self, closure: Any = None) -> Any:
        """Step the other optimizer, and average the parameters if it is time for that.

        Args:
            closure: Computes the loss again; for the other optimizer.
        """
        found = self.optim.step() if closure is None else self.optim.step(closure)
        self.averager.average_parameters(params=self.param_groups)
        return found

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Set all gradients to None, or to zero."""
        self.optim.zero_grad(set_to_none=set_to_none)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Let the other optimizer step further parameters as well."""
        self.optim.add_param_group(param_group)
