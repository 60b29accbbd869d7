"""Several properties of one sample in one test; each failure is reported with the property's name.

The sample, its reference and its arrays are made once. A separate test for each property costs 1 ms
more in all processes, longer than most properties take. A subtest of pytest costs as much, because
it captures the output and sends a report even when it passes. Here a property that holds costs 2
us; one that fails becomes a failed subtest, and the remaining properties are still checked.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any

import pytest


class Properties:
    """The fixture `properties`: `with properties("value in float32"): ...` checks one."""

    def __init__(self, subtests: pytest.Subtests, prepare: Callable[[], None]) -> None:
        self._subtests = subtests
        self._prepare = prepare
        self._next = ""
        self._open: list[str] = []

    def __call__(self, name: str) -> Properties:
        """Return the block of a property; blocks inside blocks are named by both."""
        self._next = name
        return self

    def __enter__(self) -> None:
        self._open.append(self._next)
        # Each draws the same numbers whichever others ran before it.
        self._prepare()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        __tracebackhide__ = True
        name = ", ".join(self._open)
        self._open.pop()
        if error is None:
            return False
        failed = self._subtests.test(name)
        failed.__enter__()
        return bool(failed.__exit__(kind, error, traceback))


def in_one_test(names: str, values: Iterable[Any]) -> Callable[[Callable[..., None]], Any]:
    """Return a decorator that checks all values of an argument in one test, as properties.

    It is written like `pytest.mark.parametrize`, for grids of many small checks. Fixtures are
    shared by all values, so the test must leave them as they are.
    """
    arguments = [name.strip() for name in names.split(",")]
    rows = [value if len(arguments) > 1 else (value,) for value in values]

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(test)
        has_properties = "properties" in signature.parameters

        @functools.wraps(test)
        def check_all(properties: Properties, **given: Any) -> None:
            __tracebackhide__ = True
            if has_properties:
                given["properties"] = properties
            for row in rows:
                chosen = dict(zip(arguments, row, strict=True))
                about = ", ".join(f"{name} {shown(one)}" for name, one in chosen.items())
                with properties(about):
                    test(**given, **chosen)

        kept = [p for name, p in signature.parameters.items() if name not in arguments]
        if not has_properties:
            kept.append(inspect.Parameter("properties", inspect.Parameter.KEYWORD_ONLY))
        check_all.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
        return check_all

    return decorate


def shown(value: Any) -> str:
    """Return a short text for a value of a grid."""
    name = getattr(value, "__name__", None) or repr(value)
    return name if len(name) <= 60 else name[:57] + "..."
