"""Several properties of one sample in one test; each failure is reported with the property's name.

The sample, its reference and its arrays are made once. A separate test for each property costs 1 ms
more over all processes, which is longer than most properties take. A subtest of pytest costs as
much: even if it passes, it captures the output and sends a report. Here a property that holds costs
2 us. One that fails becomes a failed subtest, and the remaining properties are still checked.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any

import pytest


class Properties:
    """The fixture `properties`: `with properties("value in float32"): ...` checks one property."""

    def __init__(self, subtests: pytest.Subtests, prepare: Callable[[], None]) -> None:
        self._subtests = subtests
        self._prepare = prepare
        self._next = ""
        self._open: list[str] = []

    def __call__(self, name: str) -> Properties:
        """Return a block that checks one property; a report of nested blocks gives all names."""
        self._next = name
        return self

    def __enter__(self) -> None:
        self._open.append(self._next)
        # Seed before each property, so that its random numbers do not depend on earlier properties.
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

    The syntax is that of `pytest.mark.parametrize`; use it for grids of many small checks. All
    values share the fixtures, so the test must not change the fixtures.
    """
    arguments = [name.strip() for name in names.split(",")]
    rows = [value if len(arguments) > 1 else (value,) for value in values]
    abouts = [
        ", ".join(f"{name} {shown(one)}" for name, one in zip(arguments, row, strict=True))
        for row in rows
    ]
    named = [*zip(abouts, rows, strict=True)]
    return lambda test: _checking_all(test, arguments, lambda given: named)


def in_one_test_each(
    group: str, names: str, groups: Mapping[str, Mapping[str, tuple[Any, ...]]]
) -> Callable[[Callable[..., None]], Any]:
    """Return a decorator that makes one test for each group of rows, and one property per row.

    The property has the name of the row. The test gets an additional argument `group`. The syntax
    is that of `pytest.mark.parametrize`; use it for the many cases of an op.
    """
    arguments = [name.strip() for name in names.split(",")]

    def decorate(test: Callable[..., None]) -> Any:
        def rows_of(given: dict[str, Any]) -> Iterable[tuple[str, tuple[Any, ...]]]:
            return groups[given.pop(group)].items()

        checking = _checking_all(test, arguments, rows_of, group)
        return pytest.mark.parametrize(group, groups)(checking)

    return decorate


def _checking_all(
    test: Callable[..., None],
    arguments: list[str],
    rows_of: Callable[[dict[str, Any]], Iterable[tuple[str, tuple[Any, ...]]]],
    *more: str,
) -> Callable[..., None]:
    """Return a test that checks each named row of arguments as a property; `more` are the names of
    additional parameters of the test.
    """
    signature = inspect.signature(test)
    has_properties = "properties" in signature.parameters

    @functools.wraps(test)
    def check_all(properties: Properties, **given: Any) -> None:
        __tracebackhide__ = True
        rows = rows_of(given)
        if has_properties:
            given["properties"] = properties
        for about, row in rows:
            with properties(about):
                test(**given, **dict(zip(arguments, row, strict=True)))

    kept = [p for name, p in signature.parameters.items() if name not in arguments]
    added = [*more, *([] if has_properties else ["properties"])]
    kept += [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in added]
    check_all.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
    return check_all


def shown(value: Any) -> str:
    """Return a short string that describes a value of a grid."""
    name = getattr(value, "__name__", None) or repr(value)
    return name if len(name) <= 60 else name[:57] + "..."
