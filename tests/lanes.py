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

# Jobs of several processes, many of them against the clock. Each of these two lanes runs its jobs
# one after the other, next to tests that compute. The first mostly waits for deadlines; the second
# starts programs by the launcher and needs half a core. Together in one lane they took longer than
# all other tests.
WAITING = "workers of one test"
LAUNCHED = "jobs of the launcher"
_JOBS = {
    WAITING: (
        "distributed/autograd/", "distributed/checkpoint/", "distributed/rpc/",
        "distributed/test_",
    ),
    LAUNCHED: ("examples/", "launch/"),
}  # fmt: skip
# Among them, but one process, which computes: its clock and its network are its own.
_SIMULATED = "/test_simulat"
_COMPILING = ("kernels/cuda/test_compile.py",)
_PARTS = 64


# With more, the jobs alone decide how long a run takes; each process holds 700 MB.
_MOST_PROCESSES = 9


def num_processes(config: pytest.Config, has_gpu: Callable[[], bool]) -> int:
    """Return how many processes share the tests.

    All tests: one for each lane of jobs, and for what computes one less than there are cores, since
    jobs leave about one core free. With a GPU two, as each process has a context and a pool of
    memory there. Texts that are compiled: one for each core. A few files, the tests of a GPU alone,
    or a machine of one core: none but this process.
    """
    cores = os.cpu_count() or 1
    if not names_no_tests(config) or config.option.markexpr == "gpu" or cores == 1:
        return 0
    if config.option.markexpr == "nvrtc":
        return cores
    return 2 if has_gpu() else min(len(_JOBS) + cores - 1, _MOST_PROCESSES)


def names_no_tests(config: pytest.Config) -> bool:
    """Return whether the command line leaves it to us which files are run: then all are."""
    return config.args_source is pytest.Config.ArgsSource.TESTPATHS


class Lanes(LoadScopeScheduling):
    """A process begins with each lane of jobs; the others take, file by file, what computes."""

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
        for lane in reversed(_JOBS):
            if lane in self.workqueue:
                self.workqueue.move_to_end(lane, last=False)
        super()._assign_work_unit(node)


def lane_of(nodeid: str) -> str:
    """Return the name that a test shares with those that run in the same process: a lane of jobs,
    its file, or a part of a file that compiles for minutes.
    """
    path = nodeid.partition("::")[0].removeprefix("tests/")
    if path in _COMPILING:
        return f"{path} {zlib.crc32(nodeid.encode()) % _PARTS}"
    if _SIMULATED in path:
        return path
    return next((lane for lane, starts in _JOBS.items() if path.startswith(starts)), path)
