"""Several properties of one sample in one test; each failure is reported with the property's name.

The sample, its reference and its arrays are made once. A separate test for each property costs
1.3 ms more in two processes, longer than most properties take. So does a subtest of pytest, which
captures the output and sends a report even when it passes. Here a property that holds costs 2 us;
one that fails becomes a failed subtest, and the remaining properties are still checked.
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
