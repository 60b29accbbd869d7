"""The sequence of view ops that makes a view from its base."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Step = tuple[Any, tuple[Any, ...]]


class ViewSteps:
    """A linked chain of pairs (view op, arguments). The chain of a view refers to the chain of its
    base view, so adding a step costs the same for any length.

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
        """Return the steps without the first `skipped` ones."""
        steps = []
        chain: ViewSteps | None = self
        while chain is not None and chain._length > skipped:
            steps.append(chain._step)
            chain = chain._before
        steps.reverse()
        return steps
