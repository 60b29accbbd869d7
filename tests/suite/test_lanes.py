"""Several processes share a run of all tests, with the same summary as a run in one process."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from tests import lanes
from tests.conftest import ROOT
from tests.lanes import (
    _COMPILING,
    _JOBS,
    _LONG,
    _PARSING,
    _PARTS,
    FewReports,
    Lanes,
    is_job,
    lane_of,
    num_processes,
)
from tests.launch import forked_programs

FILES = ("graph/test_modes.py", "concurrency/test_future.py", "distributed/store/test_tcp_store.py")
# The last file has a single test, which these names deselect.
NAMES = "modes or future or frozen_host"
TOLD = re.compile(r"=+ seed rows|[CUTEF]  |     \w|deselected ")
SOURCES = pytest.Config.ArgsSource


@pytest.mark.parametrize(
    ("source", "cores", "marks", "has_gpu", "expected"),
    [
        (SOURCES.TESTPATHS, 2, "", False, 4),
        (SOURCES.TESTPATHS, 2, "gpu", True, 0),
        (SOURCES.TESTPATHS, 4, "", False, 6),
        (SOURCES.TESTPATHS, 16, "", False, 9),
        (SOURCES.TESTPATHS, 16, "", True, 2),
        (SOURCES.TESTPATHS, 16, "nvrtc", True, 16),
        (SOURCES.TESTPATHS, 1, "", False, 0),
        (SOURCES.TESTPATHS, 1, "nvrtc", False, 0),
        (SOURCES.ARGS, 64, "", False, 0),
    ],
)
def test_all_tests_are_shared_by_processes_for_jobs_and_cores_and_a_few_by_none(
    source: Any,
    cores: int,
    marks: str,
    has_gpu: bool,
    expected: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: cores)
    config: Any = SimpleNamespace(args_source=source, option=SimpleNamespace(markexpr=marks))
    assert num_processes(config, lambda: has_gpu) == expected


def test_reports_are_sent_of_calls_of_failures_and_of_what_took_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def report(when: str, passed: bool, duration: float) -> Any:
        return SimpleNamespace(when=when, passed=passed, duration=duration)

    made = [report("setup", True, 0.001), report("call", True, 0.001), report("setup", False, 0.0)]
    made += [report("teardown", True, 0.004), report("teardown", True, 0.006)]
    monkeypatch.setattr(lanes, "runtestprotocol", lambda *_, **__: made)
    item = Mock(nodeid="tests/a.py::test_it", location=("tests/a.py", 1, "test_it"))
    assert FewReports().pytest_runtest_protocol(item, None)
    sent = [one.kwargs["report"] for one in item.ihook.pytest_runtest_logreport.call_args_list]
    assert sent == [made[1], made[2], made[4]]
    for told in (item.ihook.pytest_runtest_logstart, item.ihook.pytest_runtest_logfinish):
        told.assert_called_once_with(nodeid=item.nodeid, location=item.location)


def test_a_test_whose_time_is_over_while_its_failure_is_described_has_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def run(item: Any, log: bool, nextitem: Any) -> list[Any]:
        pytest.fail("Timeout (>120.0s) from pytest-timeout.")

    teardown: Any = SimpleNamespace(when="teardown", passed=True, duration=0.0)
    monkeypatch.setattr(lanes, "runtestprotocol", run)
    monkeypatch.setattr(lanes, "call_and_report", lambda *_, **__: teardown)
    item = Mock(nodeid="tests/a.py::test_it", location=("tests/a.py", 1, "test_it"))
    assert FewReports().pytest_runtest_protocol(item, None)
    (sent,) = [one.kwargs["report"] for one in item.ihook.pytest_runtest_logreport.call_args_list]
    assert sent.failed and sent.when == "call" and "Timeout (>120.0s)" in sent.longrepr


def test_a_file_is_run_by_one_process_and_is_a_job_or_computes() -> None:
    passes = "distributed/autograd/simulation/test_simulated_passes.py"
    assert (ROOT / "tests" / passes).exists()
    for path, waits in {
        "distributed/rpc/test_faults.py": True,
        "distributed/test_soak.py": True,
        "distributed/store/test_wire.py": True,
        "launch/test_nodes.py": True,
        "kernels/cpu/test_launch.py": False,
        passes: False,
    }.items():
        assert lane_of(f"tests/{path}::test_it[tcp]") == path
        assert is_job(path) == waits
    compiled = {lane_of(f"tests/{_COMPILING[0]}::test_it[{text}]") for text in range(1000)}
    assert len(compiled) == _PARTS
    assert len({lane_of(f"tests/{path}::test_it") for path in _PARSING}) == 1
    for start in (*_JOBS, *_COMPILING, *_PARSING, *_LONG):
        assert list((ROOT / "tests").glob(f"{start}*")), f"no test is in {start}"


def test_all_that_is_compiled_without_a_gpu_is_where_the_commit_gate_looks() -> None:
    mark = "pytest.mark." + "nvrtc"
    found = [path for path in (ROOT / "tests").rglob("*.py") if mark in path.read_text()]
    assert [path.relative_to(ROOT / "tests").as_posix() for path in found] == [*_COMPILING]
    folder = os.path.dirname(_COMPILING[0])
    assert f"-m nvrtc tests/{folder}\n" in (ROOT / ".ci" / "run").read_text()


TESTS = [
    "tests/ops/test_table.py::test_it", "tests/launch/test_run.py::test_it",
    "tests/distributed/rpc/test_rpc.py::test_it", "tests/ops/test_random.py::test_it",
    "tests/examples/test_demos.py::test_it", "tests/launch/test_ending.py::test_it",
]  # fmt: skip


def lanes_of(count: int, tests: Sequence[str] = TESTS) -> tuple[Lanes, list[Any], list[list[int]]]:
    """Return the scheduler for `count` processes, the processes, and the tests given to each."""
    config: Any = SimpleNamespace(option=SimpleNamespace(numprocesses=count, tx=["popen"] * count))
    config.getvalue = config.getoption = lambda name: ["popen"] * count
    lanes = Lanes(config, SimpleNamespace(loadscopesched=lambda *words: None))
    given: list[list[int]] = [[] for _ in range(count)]
    nodes = [Mock(shutting_down=False, send_runtest_some=one.extend) for one in given]
    for node in nodes:
        lanes.registered_collections[node] = [*tests]
        lanes.assigned_work[node] = {}
    lanes.workqueue.update({lane_of(test): {test: False} for test in tests})
    return lanes, nodes, given


def test_three_processes_begin_with_jobs_and_the_others_with_what_computes() -> None:
    lanes, nodes, given = lanes_of(4)
    for node in [*nodes, nodes[3], nodes[3]]:
        lanes._assign_work_unit(node)
    # The fourth process gets a test that starts a job once no other test is left.
    assert given == [[1], [2], [4], [0, 3, 5]]


def test_long_files_are_given_out_before_others_of_their_kind() -> None:
    long = ["tests/house/test_docs.py::test_it", "tests/launch/test_nodes.py::test_it"]
    lanes, nodes, given = lanes_of(4, [*TESTS[:5], *long])
    for node in nodes:
        lanes._assign_work_unit(node)
    assert given == [[6], [1], [2], [5]]


def test_a_process_that_takes_the_place_of_a_crashed_one_begins_as_that_did() -> None:
    lanes, nodes, given = lanes_of(4)
    for node in nodes:
        lanes._assign_work_unit(node)
        node.shutting_down = True  # so that its remaining tests are given to `late`
    lanes.remove_node(nodes[1])
    late = Mock(shutting_down=False, send_runtest_some=(began := []).extend)
    lanes.registered_collections[late] = TESTS
    lanes._assign_work_unit(late)
    assert given == [[1], [2], [4], [0]] and began == [5]


def test_a_process_alone_begins_with_jobs_and_what_has_run_is_forgotten() -> None:
    lanes, (node,), (given,) = lanes_of(1)
    while lanes.workqueue:
        lanes._assign_work_unit(node)
    assert given == [1, 2, 4, 5, 0, 3]
    assert lanes._pending_of(lanes.assigned_work[node]) == 6 and not lanes.tests_finished
    for left, number in enumerate(given):
        lanes.mark_test_complete(node, number)
        assert lanes._pending_of(lanes.assigned_work[node]) == 5 - left
    assert lanes.assigned_work[node] == {} and not lanes.has_pending
    assert len(given) == 6 and node.shutdown.called


CRASHES = """
import os, pytest

@pytest.mark.parametrize("number", range(3))
def test_it(number):
    if number == {number}:
        os._exit(1)
"""
SHARED = """
from tests.lanes import Lanes

def pytest_xdist_make_scheduler(config, log):
    return Lanes(config, log)
"""


@pytest.mark.one_in(4)
def test_a_run_in_which_processes_crash_ends_and_runs_all_but_what_crashed(tmp_path: Path) -> None:
    # The first two processes crash together at the beginning, and the third after many files.
    for number in range(24):
        crashes_at = {0: 0, 1: 0, 20: 2}.get(number)
        (tmp_path / f"test_{number:02}.py").write_text(CRASHES.format(number=crashes_at))
    (tmp_path / "conftest.py").write_text(SHARED)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    words = ["-m", "pytest", "-p", "no:cacheprovider", "-n", "2", str(tmp_path)]
    ran = forked_programs.run(words, tmp_path)
    assert "3 failed, 69 passed" in ran.stdout.splitlines()[-1], ran.stdout + ran.stderr


@pytest.mark.one_in(4)
def test_the_summary_is_that_of_one_process() -> None:
    files = [f"tests/{file}" for file in FILES]
    words = ["-m", "pytest", "-p", "no:cacheprovider", "-k", NAMES, *files]
    summaries = []
    for count in ("0", "2"):
        ran = forked_programs.run([*words, "-n", count], ROOT, timeout_s=100)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        summaries.append([line for line in ran.stdout.splitlines() if TOLD.match(line)])
    assert summaries[0] == summaries[1]
    assert "deselected 1, slow: give --slow or -m slow" in summaries[0]
    assert len(summaries[0]) > 10
