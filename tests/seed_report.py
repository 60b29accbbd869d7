"""The marker `seed`: a run reports the rows that hold, and a whole run fails for untested rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

import pytest

from tests.lanes import names_no_tests
from tests.seed_rows import FAMILIES, OWED, ROWS


class SeedReport:
    """A plugin that collects the results of each row's tests; a row holds if all of them passed.

    A whole run fails if a row outside `OWED` has no test, or if a row in `OWED` has one.
    """

    def __init__(self) -> None:
        self.passed: set[str] = set()
        self.failed: set[str] = set()
        self.complaints: list[str] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            rows = tuple(row for mark in item.iter_markers("seed") for row in ids_of(item, mark))
            # A report may come from another process, so the ids are sent with it.
            item.user_properties += [("seed", row) for row in rows]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        rows = [value for name, value in report.user_properties if name == "seed"]
        if report.failed:
            self.failed.update(rows)
        elif report.when == "call" and report.passed:
            self.passed.update(rows)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        # A process of xdist has run only a part of the tests.
        if hasattr(session.config, "workerinput") or not ran_all(session, exitstatus):
            return
        self.complaints = list(complaints(self.passed | self.failed))
        if self.complaints:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self.passed | self.failed:
            return
        hold = self.passed - self.failed
        terminalreporter.section(f"seed rows: {len(hold)} of {len(ROWS)} hold")
        for letter, about in FAMILIES.items():
            family = [row for row in ROWS if row[0] == letter]
            terminalreporter.write_line(f"{letter}  {about}")
            for claim, rows in (
                ("hold", hold),
                ("FAILED", self.failed),
                ("not tested in this run", set(ROWS) - self.passed - self.failed),
            ):
                if names := in_ranges(row for row in family if row in rows):
                    terminalreporter.write_line(f"     {claim}: {names}")
        for complaint in self.complaints:
            terminalreporter.write_line(f"FAILED seed rows: {complaint}", red=True)


def ran_all(session: pytest.Session, exitstatus: int) -> bool:
    """Return whether the run included all tests and did not stop early."""
    options = session.config.option
    chosen = options.keyword or options.markexpr or options.deselect or options.ignore
    chosen = chosen or options.ignore_glob or getattr(options, "lf", False) or options.collectonly
    ended = exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
    stopped = session.shouldstop or session.shouldfail
    return names_no_tests(session.config) and not chosen and ended and not stopped


def complaints(tested: set[str]) -> Iterator[str]:
    """Yield one complaint that lists the rows without a test, and one that lists the rows that no
    longer belong in `OWED`.
    """
    if lost := [row for row in ROWS if row not in tested and row not in OWED]:
        yield f"{' '.join(lost)}: no test that ran here holds this; mark one that does with its id"
    if held := [row for row in ROWS if row in tested and row in OWED]:
        yield f"{' '.join(held)}: a test holds this by now; take it off OWED in tests/seed_rows.py"


def ids_of(item: pytest.Item, mark: pytest.Mark) -> Iterator[str]:
    """Yield the row ids of a mark; raise an error for an unknown id."""
    if not mark.args or mark.kwargs:
        raise pytest.UsageError(f"{item.nodeid}: seed takes ids, such as seed('C1', 'C7')")
    for row in mark.args:
        if row not in ROWS:
            raise pytest.UsageError(f"{item.nodeid}: seed row {row!r} is not in tests/seed_rows.py")
        yield row


def in_ranges(rows: Iterable[str]) -> str:
    """Return sorted rows of one family as text; consecutive ids are joined, as in C1-C4 C7."""
    runs = groupby(enumerate(rows), key=lambda pair: int(pair[1][1:]) - pair[0])
    ends = [[row for _, row in run] for _, run in runs]
    return " ".join(run[0] if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in ends)
