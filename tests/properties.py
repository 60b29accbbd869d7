"""Several properties of one sample in one test, each reported under its own name when it fails.

A test of its own for each property would make the sample, its reference and its graph anew, and
costs 1.3 ms in two processes, which is more than most properties take. pytest's subtests cost as
much where they pass: they capture the output and report each. Here a property that holds costs
2 us; one that fails becomes a failed subtest, and the other properties are still checked.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType

import pytest


class Properties:
    """The fixture `properties`: `with properties("value in float32"): ...` checks one."""

    def __init__(self, subtests: pytest.Subtests, prepare: Callable[[], None]) -> None:
        self._subtests = subtests
        self._prepare = prepare
        self._name = ""

    def __call__(self, name: str) -> Properties:
        """Return the block of a property."""
        self._name = name
        return self

    def __enter__(self) -> None:
        # Each draws the same numbers whichever others ran before it.
        self._prepare()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        __tracebackhide__ = True
        if error is None:
            return False
        failed = self._subtests.test(self._name)
        failed.__enter__()
        return bool(failed.__exit__(kind, error, traceback))
