"""How a run of all tests is divided between processes: what waits, and what computes."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

WAITING = "what waits"
# Jobs of several processes: they wait most of the time, many of them against the clock. So they run
# one after the other, beside tests that compute, and never two of them at a time.
_JOBS = (
    "distributed/autograd/", "distributed/checkpoint/", "distributed/rpc/", "distributed/test_",
    "examples/", "launch/",
)  # fmt: skip
# Among them, but one process, which computes: its clock and its network are its own.
_SIMULATED = "/test_simulat"
_COMPILING = ("kernels/cuda/test_compile.py",)
_PARTS = 64


# Beyond these the jobs, one after the other, take longer than all that computes; each process
# holds 700 MB.
_MOST_PROCESSES = 8


def num_processes(config: pytest.Config, has_gpu: Callable[[], bool]) -> int:
    """Return how many processes share the tests.

    All tests: one process for each core, of which one begins with the jobs. On a machine with a GPU
    two, as each process has a context and a pool of its own there. Texts that are compiled: one for
    each core. A few files, and the tests of a GPU alone: this process.
    """
    if not names_no_tests(config) or config.option.markexpr == "gpu":
        return 0
    cores = os.cpu_count() or 1
    if config.option.markexpr == "nvrtc":
        processes = cores
    else:
        processes = min(cores, 2 if has_gpu() else _MOST_PROCESSES)
    return processes if processes > 1 else 0


def names_no_tests(config: pytest.Config) -> bool:
    """Return whether the command line leaves it to us which files are run: then all are."""
    return config.args_source is pytest.Config.ArgsSource.TESTPATHS


class Lanes(LoadScopeScheduling):
    """One process begins with all that waits; the others take, file by file, what computes."""

    def _split_scope(self, nodeid: str) -> str:
        return lane_of(nodeid)

    def remove_node(self, node: WorkerController) -> str | None:
        """Let the others do what a process that ended had yet to do, but for the test at which it
        crashed, which is returned and has failed.

        xdist would give out all that it was ever given. What has run is no work, and who is given
        none asks for no more: the run would stand still. What crashed once would crash the next.
        """
        work = self.assigned_work[node]
        pending = [(unit, test) for unit in work.values() for test in unit if not unit[test]]
        if not pending:
            return super().remove_node(node)
        del self.assigned_work[node]
        unit, crashed = pending[0]
        unit[crashed] = True
        for scope in work:
            if left := {test: False for test, has_run in work[scope].items() if not has_run}:
                self.workqueue[scope] = left
        for other in self.nodes:
            self._reschedule(other)
        return crashed

    def _reschedule(self, node: WorkerController) -> None:
        # One that comes for another that crashed, and has yet to look which tests there are, asks
        # when it has; xdist would fail where a second one comes at that time.
        if node in self.registered_collections:
            super()._reschedule(node)

    def _assign_work_unit(self, node: WorkerController) -> None:
        if WAITING in self.workqueue:
            self.workqueue.move_to_end(WAITING, last=False)
        super()._assign_work_unit(node)


def lane_of(nodeid: str) -> str:
    """Return with what a test shares a process: with all that waits, or with its file alone; or,
    where a file compiles for minutes, with a part of it.
    """
    path = nodeid.partition("::")[0].removeprefix("tests/")
    if path in _COMPILING:
        return f"{path} {zlib.crc32(nodeid.encode()) % _PARTS}"
    return WAITING if path.startswith(_JOBS) and _SIMULATED not in path else path
