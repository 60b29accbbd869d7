"""Unknown rows are rejected, the table of rows is right, and a row without tests fails the run."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.launch import forked_programs
from tests.seed_report import SeedReport, complaints, ids_of, in_ranges
from tests.seed_rows import FAMILIES, OWED, ROWS


def report_of(*outcomes: tuple[str, str, str]) -> SeedReport:
    """Return a report on tests with these outcomes, each a tuple (test, phase, outcome). The test
    "both" belongs to the rows C1 and C2; any other test belongs only to C1.
    """
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


def test_what_is_owed_may_only_shrink() -> None:
    assert set(OWED) <= {"U14", "U15", "U16", "U17"}


def test_a_row_without_a_test_is_named() -> None:
    tested = set(ROWS) - set(OWED) - {"C1", "T26"}
    assert [text.partition(":")[0] for text in complaints(tested)] == ["C1 T26"]


def test_a_row_that_is_owed_and_tested_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(OWED, "T25", "it is not built")
    tested = set(ROWS) - set(OWED) | {"T25"}
    assert [text.partition(":")[0] for text in complaints(tested)] == ["T25"]


# A separate test folder with two rows; its only test has the mark `C1`.
CONFTEST = """
from tests import seed_report
seed_report.ROWS, seed_report.OWED = {"C1": "one", "C2": "two"}, dict.fromkeys(OWED_HERE, "why")

def pytest_configure(config):
    config.pluginmanager.register(seed_report.SeedReport())
"""
TESTS = """
import pytest

@pytest.mark.seed("C1")
def test_one(): pass

def test_other(): pass
"""
CONFIG = "[pytest]\ntestpaths = here\nmarkers = seed(*ids): rows\n"


def run_tree(
    folder: Path, owed: tuple[str, ...], *arguments: str
) -> subprocess.CompletedProcess[str]:
    (folder / "here").mkdir()
    (folder / "pytest.ini").write_text(CONFIG)
    (folder / "conftest.py").write_text(CONFTEST.replace("OWED_HERE", repr(owed)))
    (folder / "here" / "test_tree.py").write_text(TESTS)
    words = ["-m", "pytest", "-p", "no:cacheprovider", *arguments]
    return forked_programs.run(words, folder)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("processes", ["0", "2"])
def test_a_whole_run_fails_for_a_row_without_a_test(tmp_path: Path, processes: str) -> None:
    done = run_tree(tmp_path, (), "-n", processes)
    assert (done.returncode, "FAILED seed rows: C2: no test" in done.stdout) == (1, True), done


def test_a_whole_run_passes_where_each_row_is_tested_or_owed(tmp_path: Path) -> None:
    done = run_tree(tmp_path, ("C2",))
    assert (done.returncode, "FAILED" in done.stdout) == (0, False), done


@pytest.mark.one_in(2)
@pytest.mark.parametrize("choice", [["-k", "one"], ["here/test_tree.py"], ["-m", "seed"]])
def test_a_run_of_some_tests_does_not_ask_for_the_others_rows(
    tmp_path: Path, choice: list[str]
) -> None:
    done = run_tree(tmp_path, (), *choice)
    assert (done.returncode, "FAILED" in done.stdout) == (0, False), done
