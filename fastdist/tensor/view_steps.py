"""The sequence of view ops that makes a view from its base."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Step = tuple[Any, tuple[Any, ...]]


class ViewSteps:
    """A linked list of pairs (view op, arguments). If view B is made from view A, the list of B
    refers to the list of A. So adding a step takes the same time for any length.

    Thread  immutable
    """

    __slots__ = ("_before", "_length", "_step")

    def __init__(self, before: ViewSteps | None, step: Step) -> None:
        self._before = before
        self._step = step
        self._length: int = 1 if before is None else before._length + 1

    @property
    def last(self) -> Step:
        """The last step."""
        return self._step

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Step]:
        return iter(self.after(0))

    def after(self, skipped: int) -> list[Step]:
        """Return all steps except the first `skipped` steps."""
        steps = []
        chain: ViewSteps | None = self
        while chain is not None and chain._length > skipped:
            steps.append(chain._step)
            chain = chain._before
        steps.reverse()
        return steps
