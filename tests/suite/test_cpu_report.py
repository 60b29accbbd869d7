"""The claim: --cpu counts what tests and their processes take, and sums it by folder and file."""

from __future__ import annotations

import subprocess
import sys
import time

from tests.cpu_report import CpuReport, cpu_of_tree, lines_of

# A process that computes for 0.3 s and then waits until its input ends.
_COMPUTES = """
import sys, time
while time.process_time() < 0.3: pass
print("done", flush=True)
sys.stdin.read()
"""


def test_processes_that_live_and_those_that_have_ended_count() -> None:
    before, own = cpu_of_tree(), time.process_time()
    with subprocess.Popen(
        [sys.executable, "-S", "-c", _COMPUTES], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None and child.stdout.readline() == b"done\n"
        living = cpu_of_tree() - before
    ended = cpu_of_tree() - before
    slack_s = 0.2 + time.process_time() - own
    assert 0.25 <= living <= ended + 0.02 and ended < 0.3 + slack_s


def test_what_a_test_takes_is_that_of_its_folders_and_its_file() -> None:
    lines = lines_of({"tests/a/test_x.py::one": 1.0, "tests/a/test_x.py::two": 0.25, "t.py::x": 0})
    assert [line.split() for line in lines] == [
        ["1.25", "tests/a/"],
        ["1.25", "tests/"],
        ["1.25", "tests/a/test_x.py"],
        ["1.00", "tests/a/test_x.py::one"],
    ]


def test_a_process_that_runs_no_tests_counts_none() -> None:
    report = CpuReport()
    report.pytest_runtest_logfinish("tests/test_x.py::one")
    assert not report.by_test
    report.pytest_collection_finish()
    report.pytest_runtest_logfinish("tests/test_x.py::one")
    assert [*report.by_test] == ["tests/test_x.py::one"]
