"""How much processor time tests take, with that of the processes that they start."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_NAME: Final = "cpu_by_test"
# In /proc/PID/stat, after the name of the program: user and system time, also of ended children.
_TIMES: Final = slice(11, 15)
_LEAST_S: Final = 0.5  # files and tests that take less are summed, not listed


def cpu_of_tree() -> float:
    """Return the processor time in seconds of this process and its descendants, ended ones too."""
    ticks, left = 0, [os.getpid()]
    while left:
        folder = Path("/proc", str(left.pop()))
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            for task in (folder / "task").iterdir():
                left += map(int, (task / "children").read_text().split())
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended meanwhile
        ticks += sum(map(int, fields[_TIMES]))
    return ticks / _TICKS


class CpuReport:
    """Adds up what tests take, and lists it by folder, file and test at the end of a run."""

    def __init__(self) -> None:
        self.by_test = Counter[str]()
        self._before: float | None = None  # a process that runs no tests itself never begins

    def pytest_collection_finish(self) -> None:
        """Begin to count: the time of imports and of the collection belongs to no test."""
        self._before = cpu_of_tree()

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Add what a test took, with what was set up for it and taken down after it."""
        if self._before is None:
            return
        began, now = time.process_time(), cpu_of_tree()
        self.by_test[nodeid] += max(0.0, now - self._before)
        self._before = now + time.process_time() - began  # the count itself takes time

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: WorkerController) -> None:
        """Add what the tests took that another process ran."""
        self.by_test.update(getattr(node, "workeroutput", {}).get(_NAME, {}))

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Send what was counted to the process that shares the work out, if there is one."""
        if (output := getattr(session.config, "workeroutput", None)) is not None:
            output[_NAME] = dict(self.by_test)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the sums."""
        terminalreporter.section("processor time in seconds")
        for line in lines_of(self.by_test):
            terminalreporter.write_line(line)


def lines_of(by_test: Mapping[str, float]) -> list[str]:
    """Return the sums of folders (each with the folders in it), then of files, then of tests."""
    folders, files = Counter[str](), Counter[str]()
    for test, seconds in by_test.items():
        path = test.partition("::")[0]
        files[path] += seconds
        for folder in PurePosixPath(path).parents[:-1]:
            folders[f"{folder}/"] += seconds
    tests = Counter({test: seconds for test, seconds in by_test.items() if seconds >= _LEAST_S})
    listed = Counter({file: seconds for file, seconds in files.items() if seconds >= _LEAST_S})
    return [
        f"{seconds:8.2f} {name}"
        for kind in (folders, listed, tests)
        for name, seconds in kind.most_common()
    ]
