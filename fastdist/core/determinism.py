"""Whether results must be bitwise reproducible, or the user has waived that."""

from __future__ import annotations

from typing import Final


class Determinism:
    """The state of use_deterministic_algorithms: 0 for False, 1 for True with warn_only, 2 for
    True. It is 0 at first. Results are reproducible unless a user passed False explicitly.

    Thread  any
    """

    __slots__ = ("is_waived", "mode")

    def __init__(self) -> None:
        self.mode, self.is_waived = 0, False

    def choose(self, mode: int) -> None:
        """Record the mode that the user passes; with 0, sums may run in the fastest order."""
        self.mode, self.is_waived = mode, mode == 0

    def forget(self) -> None:
        """Reset to the initial state, in which the user has passed no mode."""
        self.mode, self.is_waived = 0, False


determinism: Final = Determinism()
