"""Measure the CPU time of each test folder, and report folders above the bound after a run.

The time includes threads, ended processes, and workers that templates fork, but not collection.
`--cpu` lists all folders, each with its slowest files.
"""

from __future__ import annotations

import os
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

# The bound on the CPU seconds for the tests of one folder if kernels are already compiled, on a
# machine like that of the benchmarks.
BOUND_S = 15.0
# Folders without a bound: most tests are here, in tables of some thousand cases on each device.
UNBOUND = ("tests/ops", "tests/kernels", "tests/devices")
_SPLIT = "tests/distributed"  # the bound applies to each of its subfolders
_FILES_SHOWN = 4
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class CpuReport:
    """A plugin that measures the CPU seconds of each test file, in all processes of a run."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self._begun: float | None = None

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Iterator[None]:
        # The CPU time is read once per file, since the work of module fixtures belongs to the file.
        if self._begun is None:
            self._begun = cpu_seconds()
        result = yield
        file = file_of(item)
        if nextitem is None or file_of(nextitem) != file:
            self.seconds[file] += cpu_seconds() - self._begun
            self._begun = None
        return result

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if (output := getattr(session.config, "workeroutput", None)) is not None:
            output["cpu_seconds"] = dict(self.seconds)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: WorkerController) -> None:
        # A process that crashed has sent no times.
        self.seconds.update(getattr(node, "workeroutput", {}).get("cpu_seconds", {}))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if terminalreporter.config.option.cpu:
            terminalreporter.section("seconds of CPU by folder of tests")
            for line in table(self.seconds):
                terminalreporter.write_line(line)
        for line in above_bound(self.seconds):
            terminalreporter.write_line(line)


def cpu_seconds() -> float:
    """Return the CPU seconds of this process, of its reaped children, and of the templates."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = time.process_time() + children.ru_utime + children.ru_stime
    workers = sys.modules.get("tests.distributed.templates")
    return used + sum(map(used_by, workers.templates() if workers else ()))


def used_by(process: int) -> float:
    """Return the CPU seconds of a process and of its reaped children, or 0 if it has ended."""
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / _TICKS_PER_S


def file_of(item: pytest.Item) -> str:
    """Return the file of a test, which is the first part of its node id."""
    return item.nodeid.partition("::")[0]


def folder_of(file: str) -> str:
    """Return the folder whose bound applies to a file: tests/X, or tests/distributed/X."""
    depth = 3 if file.startswith(_SPLIT + "/") else 2
    return "/".join(file.split("/")[:-1][:depth])


def by_folder(seconds: Counter[str]) -> Counter[str]:
    """Return the sum of the seconds of each folder's files."""
    sums: Counter[str] = Counter()
    for file, used in seconds.items():
        sums[folder_of(file)] += used
    return sums


def table(seconds: Counter[str]) -> Iterator[str]:
    """Yield a line for each folder, with its slowest files."""
    for folder, used in by_folder(seconds).most_common():
        files = Counter({file: s for file, s in seconds.items() if folder_of(file) == folder})
        longest = (
            f"{file.removeprefix(folder + '/')} {s:.1f}"
            for file, s in files.most_common(_FILES_SHOWN)
        )
        yield f"{used:7.1f}  {folder}: {', '.join(longest)}"


def above_bound(seconds: Counter[str]) -> Iterator[str]:
    """Yield one line that lists the folders above the bound, if there are any."""
    above = [
        f"{folder} {used:.0f} s"
        for folder, used in by_folder(seconds).most_common()
        if used > BOUND_S and folder not in UNBOUND
    ]
    if above:
        why = "--cpu shows the files; a first run compiles kernels"
        yield f"more than {BOUND_S:g} s of CPU ({why}): {', '.join(above)}"
