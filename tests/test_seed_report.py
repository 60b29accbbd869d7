"""The claim that unknown rows are refused and that the table tells the truth."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.seed_report import SeedReport, ids_of, in_ranges
from tests.seed_rows import FAMILIES, ROWS


def report_of(*outcomes: tuple[str, str, str]) -> SeedReport:
    """Return the report after one test of rows C1 and C2 went through (phase, outcome) each."""
    report = SeedReport()
    for node, when, outcome in outcomes:
        rows = ("C1", "C2") if node == "both" else ("C1",)
        fields: Any = SimpleNamespace(
            user_properties=[("seed", row) for row in rows],
            when=when,
            passed=outcome == "passed",
            failed=outcome == "failed",
        )
        report.pytest_runtest_logreport(fields)
    return report


def test_a_row_holds_if_all_its_tests_passed() -> None:
    report = report_of(("both", "call", "passed"), ("one", "call", "failed"))
    assert (report.passed - report.failed, report.failed) == ({"C2"}, {"C1"})


def test_a_row_fails_if_its_test_left_something_behind() -> None:
    report = report_of(("one", "call", "passed"), ("one", "teardown", "failed"))
    assert report.failed == {"C1"}


def test_a_row_that_was_only_set_up_does_not_hold() -> None:
    assert report_of(("one", "setup", "passed")).passed == set()


@pytest.mark.parametrize("args", [("C31",), (), ("C1", "X1")])
def test_an_unknown_row_is_refused(args: tuple[str, ...]) -> None:
    item = cast("pytest.Item", SimpleNamespace(nodeid="tests/test_it.py::test_it"))
    with pytest.raises(pytest.UsageError, match=r"^tests/test_it\.py::test_it: seed"):
        list(ids_of(item, pytest.mark.seed(*args).mark))


def test_neighbours_are_joined() -> None:
    assert in_ranges(["C1", "C2", "C3", "C7", "C9", "C10"]) == "C1-C3 C7 C9-C10"


def test_every_row_belongs_to_a_family_that_is_told() -> None:
    assert {row[0] for row in ROWS} == set(FAMILIES)
    assert len(ROWS) == 148
