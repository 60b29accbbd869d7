"""An averager over groups of several sizes: small groups often, all members rarely."""

from __future__ import annotations

import logging
import warnings
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any

from ....core.missing import show_public
from ...process_group.subgroups import new_subgroups
from . import averagers, utils

__all__ = ["HierarchicalModelAverager"]

_logger = logging.getLogger(__name__)


class HierarchicalModelAverager(averagers.ModelAverager):
    """Averages parameters over small groups often, and over larger groups less often.

    In a step whose number is a multiple of several periods, only the largest group averages.
    Source: J. Wang, G. Joshi et al., "SlowMo", and its hierarchical form: local SGD with several
    levels of groups.

    Raises  ValueError if there is no period, a period is not positive, the last size is not the
            group's size, or warmup_steps is negative

    Args:
        period_group_size_dict: Maps a period to the number of members that average together.
            Periods and sizes must increase; the last size must be the complete group's size.
        warmup_steps: The number of initial steps without averaging.
        process_group: The complete group; the default group if None.
    """

    def __init__(
        self,
        period_group_size_dict: Mapping[int, int] | None = None,
        warmup_steps: int = 0,
        process_group: Any = None,
    ) -> None:
        super().__init__(process_group)
        if not period_group_size_dict:
            raise ValueError("Arg ``period_group_size_dict`` must not be empty.")
        self._periods = list(period_group_size_dict)
        if self._periods[0] <= 0:
            raise ValueError(
                "The minimum period in arg ``period_group_size_dict`` must be a positive value."
            )
        if self._periods[-1] == 1:
            warnings.warn(
                f"When the maximum period in arg ``period_group_size_dict`` is 1, "
                f"{averagers.USELESS}",
                stacklevel=2,
            )
        size, last = self.process_group.size(), list(period_group_size_dict.values())[-1]
        if last != size:
            raise ValueError(
                f"The last value in arg ``period_group_size_dict`` {last} must be equal to the "
                f"size of arg ``process_group`` {size}."
            )
        if warmup_steps < 0:
            raise ValueError("Arg ``warmup_steps`` must be a non-negative number.")
        self.warmup_steps = warmup_steps
        # Maps a period to this member's group.
        self.period_process_group_dict: OrderedDict[int, Any] = OrderedDict()
        for period, count in period_group_size_dict.items():
            _logger.info("each group of %d averages every %d steps", count, period)
            self.period_process_group_dict[period] = (
                self.process_group
                if count == size
                else new_subgroups(group_size=count, group=self.process_group)[0]
            )

    def _find_process_group(self) -> Any:
        """Return the largest group that averages in this step; None if no group averages."""
        for period in reversed(self._periods):
            if self.step % period == 0:
                return self.period_process_group_dict[period]
        return None

    def average_parameters(self, params: Iterable[Any]) -> None:
        """Count a step, and replace parameters by their means over this step's group, if any.

        Args:
            params: Parameters, or an optimizer's `param_groups`; only parameters with gradients
                change.
        """
        if self.step >= self.warmup_steps:
            group = self._find_process_group()
            if group is not None:
                utils.average_parameters_or_parameter_groups(params, group)
        self.step += 1


show_public(__name__)
