"""Averagers of model parameters over one group."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, Final

from ....core.missing import show_public
from ...process_group.world import default_group
from . import utils

__all__ = ["ModelAverager", "PeriodicModelAverager"]

USELESS: Final = (
    "a mean after every step costs as much as the reduction of gradients by "
    "DistributedDataParallel, which is then enough"
)


class ModelAverager(ABC):
    """The base class of averagers, which replace the parameters of all members by their mean.

    Args:
        process_group: The group; the default group if None.
    """

    def __init__(self, process_group: Any = None) -> None:
        self.process_group = default_group() if process_group is None else process_group
        # The number of calls of average_parameters.
        self.step = 0

    @abstractmethod
    def average_parameters(self, params: Iterable[Any]) -> None:
        """Count a step; replace parameters by their means in the steps that the class selects."""


class PeriodicModelAverager(ModelAverager):
    """Averages parameters in every `period`-th step.

    Together with PostLocalSGDOptimizer and post_localSGD_hook this is post-local SGD.
    Source: T. Lin, S. Stich, K. Patel, M. Jaggi, "Don't Use Large Mini-Batches, Use Local SGD"
    (2020).

    Raises  ValueError if the period is not positive, or warmup_steps is negative

    Args:
        period: The number of steps from one averaging to the next.
        warmup_steps: The number of initial steps without averaging.
        process_group: The group; the default group if None.
    """

    def __init__(self, period: int, warmup_steps: int = 0, process_group: Any = None) -> None:
        super().__init__(process_group)
        if warmup_steps < 0:
            raise ValueError("Arg ``warmup_steps`` must be a non-negative number.")
        if period < 1:
            raise ValueError("Arg ``period`` must be a positive value.")
        if period == 1:
            warnings.warn(f"When period is 1, {USELESS}", stacklevel=2)
        self.period, self.warmup_steps = period, warmup_steps

    def average_parameters(self, params: Iterable[Any]) -> None:
        """Replace parameters by their means if a period begins with this step; count the step.

        Args:
            params: Parameters, or an optimizer's `param_groups`; only parameters with gradients
                change.
        """
        after = self.step - self.warmup_steps
        if after >= 0 and after % self.period == 0:
            utils.average_parameters_or_parameter_groups(params, self.process_group)
        self.step += 1


show_public(__name__)
