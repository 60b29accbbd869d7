"""How a run of all tests is divided between processes: tests that wait, and tests that compute."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable
from itertools import chain
from typing import TYPE_CHECKING

import pytest
from _pytest.runner import call_and_report, runtestprotocol
from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.workermanage import WorkerController

# Files whose tests wait for other processes, connections or deadlines. Three processes start with
# these files and together need about one core. The other core is free for tests that compute.
_JOBS = (
    *("distributed/autograd/", "distributed/checkpoint/", "distributed/explain/"),
    *("distributed/links/", "distributed/pipe/", "distributed/process_group/test_jobs"),
    *("distributed/rpc/", "distributed/sockets/", "distributed/store/", "distributed/test_"),
    *("examples/", "launch/"),
)
_JOB_PROCESSES = 3
# Tests in these folders that compute in one process, with a simulated clock and network.
_SIMULATED = "/test_simulat"
# Tests in these files parse all source files, so one process runs them and parses each file once.
_PARSING = (
    *("house/test_docstrings.py", "house/test_layers.py", "house/test_sizes.py"),
    "core/test_moved_modules.py",
)
_COMPILING = ("kernels/cuda/test_compile.py",)
_PARTS = 64
# Files with few tests that take 5 to 40 s each. Without this list, files with many tests would be
# scheduled first, and one of the long files would run alone at the end.
_LONG = (
    *("distributed/autograd/simulation/test_simulated_passes.py", "house/test_packaging.py"),
    *("distributed/rpc/simulation/test_simulation.py", "kernels/guarded/test_guarded.py"),
    *("distributed/rpc/simulation/test_simulated_shutdown.py", "house/test_docs.py"),
    *("distributed/rpc/simulation/test_simulated_references.py", "house/test_contributing.py"),
    *("distributed/process_group/simulation/test_simulated_groups.py", _PARSING[0]),
    *("bench/test_first_calls.py", "bench/test_distributed_hvp.py", "suite/test_surroundings.py"),
    *("launch/test_two_hosts.py", "examples/test_resume.py", "examples/test_jobs.py"),
    *("distributed/links/test_two_hosts.py", "distributed/rpc/test_given_up.py"),
    *("launch/test_nodes.py", "launch/test_node_restarts.py", "examples/test_digits.py"),
    *("distributed/test_soak.py", "distributed/rpc/test_faults.py"),
)

# With more processes, the tests that wait would determine the duration; each process takes 700 MB.
_MOST_PROCESSES = 9


def num_processes(config: pytest.Config, has_gpu: Callable[[], bool]) -> int:
    """Return how many processes share the tests.

    For all tests: three for jobs, and one less than there are cores for tests that compute,
    since jobs leave about one core free. With a GPU: two, as each process holds a context and a
    memory pool on it. For compiling CUDA sources: one per core. For a few files, for GPU tests
    only, or on a machine with one core: none, so this process runs all.
    """
    cores = os.cpu_count() or 1
    if not names_no_tests(config) or config.option.markexpr == "gpu" or cores == 1:
        return 0
    if config.option.markexpr == "nvrtc":
        return cores
    return 2 if has_gpu() else min(_JOB_PROCESSES + cores - 1, _MOST_PROCESSES)


def names_no_tests(config: pytest.Config) -> bool:
    """Return whether the command line names no test files, so that all of them run."""
    return config.args_source is pytest.Config.ArgsSource.TESTPATHS


class Lanes(LoadScopeScheduling):
    """Three processes start with jobs, the others with tests that compute. Each takes one file at a
    time; when no file of its kind is left, it takes files of the other kind.
    """

    def __init__(self, config: pytest.Config, log: Producer | None = None) -> None:
        super().__init__(config, log)
        self._numbers: dict[WorkerController, dict[str, int]] = {}
        self._begin_with_jobs: set[WorkerController] = set()

    def _split_scope(self, nodeid: str) -> str:
        return lane_of(nodeid)

    def remove_node(self, node: WorkerController) -> str | None:
        """Give the remaining tests of an ended process to others, except the test that ended it.

        This test is returned, and reported as failed, since it would end the next process too.
        """
        work = self.assigned_work[node]
        self._begin_with_jobs.discard(node)
        if not self._pending_of(work):
            return super().remove_node(node)
        del self.assigned_work[node]
        first = next(iter(work))
        crashed = next(iter(work[first]))
        del work[first][crashed]
        self.workqueue.update({scope: tests for scope, tests in work.items() if tests})
        for other in self.nodes:
            self._reschedule(other)
        return crashed

    def _reschedule(self, node: WorkerController) -> None:
        # A replacement for a crashed process is given work only after it has collected the tests;
        # xdist would fail if a second replacement started earlier.
        if node in self.registered_collections:
            super()._reschedule(node)

    # At six events of each test, xdist counts all tests that a process has ever had, and it
    # searches a list for each test. This took 14 s of a core for 24,000 tests. This class forgets
    # each test after it has run.

    def mark_test_complete(
        self, node: WorkerController, item_index: int, duration: float = 0
    ) -> None:
        """Forget a test that has run, and send the process more tests if it has few left."""
        test = self.registered_collections[node][item_index]
        work, scope = self.assigned_work[node], lane_of(test)
        del work[scope][test]
        if not work[scope]:
            del work[scope]
        self._reschedule(node)

    def _pending_of(self, workload: dict[str, dict[str, bool]]) -> int:
        return sum(map(len, workload.values()))

    def _assign_work_unit(self, node: WorkerController) -> None:
        scope = self._next_of(node)
        unit = self.workqueue.pop(scope)
        self.assigned_work.setdefault(node, {})[scope] = unit
        if node not in self._numbers:
            tests = self.registered_collections[node]
            self._numbers[node] = {test: number for number, test in enumerate(tests)}
        node.send_runtest_some([self._numbers[node][test] for test in unit])

    def _next_of(self, node: WorkerController) -> str:
        """Return the next file for a process."""
        if len(self._begin_with_jobs) < _JOB_PROCESSES:
            self._begin_with_jobs.add(node)
        wants_jobs = node in self._begin_with_jobs
        long = (scope for scope in _LONG if scope in self.workqueue)
        its_kind = (scope for scope in chain(long, self.workqueue) if is_job(scope) == wants_jobs)
        return next(its_kind, next(iter(self.workqueue)))


# `--durations` lists no shorter times.
_SHORT_S = 0.005


class FewReports:
    """Run tests in an xdist worker, and send only those reports that the controller needs.

    A test has three reports: setup, call and teardown. The report of a setup or teardown that
    passed quickly is not needed. Packing, sending and reading such reports took 9 s of a core for
    35,000 tests.
    """

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        """Run a test as pytest does, and send its reports when it has ended."""
        named = {"nodeid": item.nodeid, "location": item.location}
        item.ihook.pytest_runtest_logstart(**named)
        for report in _reports_of(item, nextitem):
            if report.when == "call" or not report.passed or report.duration >= _SHORT_S:
                item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(**named)
        return True


def _reports_of(item: pytest.Item, nextitem: pytest.Item | None) -> list[pytest.TestReport]:
    """Run a test and return its reports.

    If its time limit expires while pytest describes a failure, report the test as failed. pytest
    would treat this as an internal error and end the run.
    """
    try:
        return runtestprotocol(item, log=False, nextitem=nextitem)
    except pytest.fail.Exception as late:
        words = f"{late} It had failed, and its failure was being described."
        failed = pytest.TestReport(item.nodeid, item.location, {}, "failed", words, "call")
        return [failed, call_and_report(item, "teardown", log=False, nextitem=nextitem)]


def lane_of(nodeid: str) -> str:
    """Return the group of a test; all tests of a group run in the same process.

    A group is a file, a few files that share parsed sources, or part of a file that compiles for
    minutes.
    """
    path = nodeid.partition("::")[0].removeprefix("tests/")
    if path in _COMPILING:
        return f"{path} {zlib.crc32(nodeid.encode()) % _PARTS}"
    return _PARSING[0] if path in _PARSING else path


def is_job(path: str) -> bool:
    """Return whether the tests of a file spend their time waiting."""
    return path.startswith(_JOBS) and _SIMULATED not in path
