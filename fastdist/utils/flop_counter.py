"""Counts the floating-point operations of a block, under PyTorch's name."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from ..autograd.profiler import profile
from ..core.missing import explain_missing

__all__ = ["FlopCounterMode"]


class FlopCounterMode:
    """Counts the operations of matrix products and convolutions in a block, op by op.

    Args:
        mods: Ignored.
        depth: Ignored: operations are counted for the whole block, not for each module.
        display: Whether the table is printed at the end.
        custom_mapping: Not supported: user-defined formulas raise NotImplementedError.

    Raises  NotImplementedError for a custom_mapping
    Note    this mode opens a profile, so the block cannot be inside another profile
    """

    def __init__(
        self, mods: Any = None, depth: int = 2, display: bool = True, custom_mapping: Any = None
    ) -> None:
        if custom_mapping:
            raise NotImplementedError(
                "FlopCounterMode: formulas of your own are not supported; leave custom_mapping out"
            )
        self.display = display
        self._counts: dict[str, int] = {}

    def __enter__(self) -> Self:
        self._counts = {}
        self._profile = profile(with_flops=True)
        self._profile.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._profile.__exit__(kind, error, trace)
        for event in self._profile.key_averages():
            if event.flops:
                self._counts[event.key] = self._counts.get(event.key, 0) + int(event.flops)
        if self.display:
            print(self.get_table())  # noqa: T201 (PyTorch's prints it)

    def get_total_flops(self) -> int:
        """Return the total number of operations in the block."""
        return sum(self._counts.values())

    def get_flop_counts(self) -> dict[str, dict[str, int]]:
        """Return the number of operations by op, under the key "Global"."""
        return {"Global": dict(self._counts)}

    def get_table(self, depth: int | None = None) -> str:
        """Return the numbers by op as a text table; depth is ignored."""
        rows = [("Global", self.get_total_flops()), *self._counts.items()]
        return "\n".join(f"{name:<30} {count:>16,}" for name, count in rows)


explain_missing(__name__)
