"""The CPU that the tests of each folder take: a run ends with the folders that are above the bound.

Threads and ended processes count, and so do workers that a template forked. Collection does not.
`--cpu` lists all folders, and the files of each that take most.
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

# Seconds of CPU for the tests of one folder, on a machine such as those of the benchmarks, where
# the kernels are compiled.
BOUND_S = 15.0
# The bulk of the package: a table of some thousand cases on each device.
UNBOUND = ("tests/ops", "tests/kernels", "tests/devices")
_SPLIT = "tests/distributed"  # its folders count, not the whole
_FILES_SHOWN = 4
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class CpuReport:
    """A plugin that counts CPU seconds by file of tests, in all processes that share a run."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self._begun: float | None = None

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Iterator[None]:
        # Read once a file: what a test leaves to its module's fixtures belongs to the file.
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
        # A process that crashed sends nothing.
        self.seconds.update(getattr(node, "workeroutput", {}).get("cpu_seconds", {}))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if terminalreporter.config.option.cpu:
            terminalreporter.section("seconds of CPU by folder of tests")
            for line in table(self.seconds):
                terminalreporter.write_line(line)
        for line in above_bound(self.seconds):
            terminalreporter.write_line(line)


def cpu_seconds() -> float:
    """Return the CPU seconds of this process and of its children: those that it has waited for, and
    the templates of workers with theirs.
    """
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = time.process_time() + children.ru_utime + children.ru_stime
    workers = sys.modules.get("tests.distributed.templates")
    return used + sum(map(used_by, workers.templates() if workers else ()))


def used_by(process: int) -> float:
    """Return the CPU seconds of a process and of the children that it has waited for, 0 if it is
    gone.
    """
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / _TICKS_PER_S


def file_of(item: pytest.Item) -> str:
    """Return the file of a test, as its name begins."""
    return item.nodeid.partition("::")[0]


def folder_of(file: str) -> str:
    """Return the folder whose bound a file counts for: tests/X, or tests/distributed/X."""
    depth = 3 if file.startswith(_SPLIT + "/") else 2
    return "/".join(file.split("/")[:-1][:depth])


def by_folder(seconds: Counter[str]) -> Counter[str]:
    """Return the sums of the folders."""
    sums: Counter[str] = Counter()
    for file, used in seconds.items():
        sums[folder_of(file)] += used
    return sums


def table(seconds: Counter[str]) -> Iterator[str]:
    """Yield a line for each folder, with its longest files."""
    for folder, used in by_folder(seconds).most_common():
        files = Counter({file: s for file, s in seconds.items() if folder_of(file) == folder})
        longest = (
            f"{file.removeprefix(folder + '/')} {s:.1f}"
            for file, s in files.most_common(_FILES_SHOWN)
        )
        yield f"{used:7.1f}  {folder}: {', '.join(longest)}"


def above_bound(seconds: Counter[str]) -> Iterator[str]:
    """Yield one line, if a folder that has a bound is above it."""
    above = [
        f"{folder} {used:.0f} s"
        for folder, used in by_folder(seconds).most_common()
        if used > BOUND_S and folder not in UNBOUND
    ]
    if above:
        why = "--cpu shows the files; a first run compiles kernels"
        yield f"more than {BOUND_S:g} s of CPU ({why}): {', '.join(above)}"
