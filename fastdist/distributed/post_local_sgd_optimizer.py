"""PostLocalSGDOptimizer: after some steps, it averages the parameters over all members."""

from __future__ import annotations

import warnings
from typing import Any

from ..optim.optimizer import Optimizer
from .algorithms.model_averaging.averagers import ModelAverager

__all__ = ["PostLocalSGDOptimizer"]


class PostLocalSGDOptimizer(Optimizer):
    """Steps another optimizer, and averages its parameters after steps that an averager selects.

    Args:
        optim: This member's local optimizer.
        averager: A PeriodicModelAverager, which decides after which steps to average.
    """

    def __init__(self, optim: Optimizer, averager: ModelAverager) -> None:
        self.optim, self.averager = optim, averager
        # The inner optimizer's own list: schedulers change this list, and groups are added to it.
        self.param_groups = optim.param_groups
        self.defaults = optim.defaults

    @property
    def state(self) -> Any:  # type: ignore[override]
        """The state of the inner optimizer."""
        return self.optim.state

    def __repr__(self) -> str:
        return repr(self.optim)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the inner optimizer, and the averager's "step"."""
        return {**self.optim.state_dict(), "step": self.averager.step}

    def load_state_dict(self, state_dict: Any) -> None:
        """Load a state; if it has no "step", the averager starts at 0, with a warning."""
        self.optim.load_state_dict(state_dict)
        # The inner optimizer's load_state_dict() has replaced its list of groups.
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
        """Step the inner optimizer, then call the averager, which may average the parameters.

        Args:
            closure: A function that computes the loss again, for the inner optimizer.
        """
        found = self.optim.step() if closure is None else self.optim.step(closure)
        self.averager.average_parameters(params=self.param_groups)
        return found

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Set all gradients to None, or to zero."""
        self.optim.zero_grad(set_to_none=set_to_none)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a parameter group to the inner optimizer."""
        self.optim.add_param_group(param_group)
