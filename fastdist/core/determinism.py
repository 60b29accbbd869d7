"""Whether results must be the same bits each time, and whether the user has waived that."""

from __future__ import annotations

from typing import Final


class Determinism:
    """The value of use_deterministic_algorithms: 0 for False, 1 for True with warn_only, 2 for
    True; 0 at first. Results are the same each time unless a user passed False explicitly.

    Thread  any
    """

    __slots__ = ("is_waived", "mode")

    def __init__(self) -> None:
        self.mode, self.is_waived = 0, False

    def choose(self, mode: int) -> None:
        """Note a mode that the user gives; 0 lets sums run in whatever order is fastest."""
        self.mode, self.is_waived = mode, mode == 0

    def forget(self) -> None:
        """Be as at first: nothing was given."""
        self.mode, self.is_waived = 0, False


determinism: Final = Determinism()
