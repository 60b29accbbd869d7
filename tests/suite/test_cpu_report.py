"""The CPU report includes child processes and workers, and names folders above the bound."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from tests.suite.cpu_report import CpuReport, above_bound, by_folder, cpu_seconds, folder_of, table

BURN = "import time\nwhile time.process_time() < 0.1: pass\nprint(flush=True)\n"


@pytest.mark.parametrize(
    ("file", "folder"),
    [
        ("tests/test_cli.py", "tests"),
        ("tests/ops/nn/test_loss.py", "tests/ops"),
        ("tests/distributed/test_names.py", "tests/distributed"),
        ("tests/distributed/rpc/message/test_frames.py", "tests/distributed/rpc"),
    ],
)
def test_a_file_counts_for_its_folder(file: str, folder: str) -> None:
    assert folder_of(file) == folder


def test_folders_above_the_bound_are_named_the_longest_first() -> None:
    seconds = Counter({"tests/a/t.py": 9.0, "tests/a/b/t.py": 8.0, "tests/c/t.py": 15.0})
    seconds.update({"tests/ops/t.py": 90.0, "tests/distributed/rpc/t.py": 40.0})
    assert by_folder(seconds)["tests/a"] == 17.0
    [line] = above_bound(seconds)
    assert line.endswith(": tests/distributed/rpc 40 s, tests/a 17 s")


def test_a_run_within_the_bound_says_nothing() -> None:
    assert list(above_bound(Counter({"tests/a/t.py": 15.0}))) == []


def test_the_table_shows_the_longest_files_of_a_folder() -> None:
    seconds = Counter({f"tests/a/t{number}.py": float(number) for number in range(9)})
    assert list(table(seconds)) == ["   36.0  tests/a: t8.py 8.0, t7.py 7.0, t6.py 6.0, t5.py 5.0"]


def test_children_that_have_ended_count() -> None:
    before = cpu_seconds()
    subprocess.run([sys.executable, "-S", "-c", BURN], check=True)
    assert cpu_seconds() - before > 0.09


def test_templates_of_workers_count_while_they_live(monkeypatch: pytest.MonkeyPatch) -> None:
    # Hide the templates of the run that contains this test, because they use CPU time meanwhile.
    nobody = SimpleNamespace(templates=list)
    monkeypatch.setitem(sys.modules, "tests.distributed.templates", nobody)
    before = cpu_seconds()
    command = [sys.executable, "-S", "-c", BURN + "input()"]
    with subprocess.Popen(command, stdin=-1, stdout=-1) as child:
        assert child.stdin is not None and child.stdout is not None
        child.stdout.readline()
        templates = SimpleNamespace(templates=lambda: [child.pid])
        monkeypatch.setitem(sys.modules, "tests.distributed.templates", templates)
        used = cpu_seconds() - before
        child.stdin.write(b"\n")
        child.stdin.close()
        child.wait()
    assert used > 0.07  # the kernel counts in units of 0.01 s
    assert 0 < cpu_seconds() - before < used + 0.3  # once, as an ended child


def test_processes_that_share_a_run_add_what_they_used() -> None:
    session: Any = SimpleNamespace(config=SimpleNamespace(workeroutput={}))
    of_all = CpuReport()
    for used in (2.0, 3.0):
        report = CpuReport()
        report.seconds["tests/a/t.py"] = used
        report.pytest_sessionfinish(session)
        node: Any = SimpleNamespace(workeroutput=session.config.workeroutput)
        of_all.pytest_testnodedown(node)
    crashed: Any = SimpleNamespace()
    of_all.pytest_testnodedown(crashed)
    assert of_all.seconds == {"tests/a/t.py": 5.0}


def test_a_file_is_counted_from_its_first_test_to_its_last() -> None:
    report = CpuReport()
    tests: list[Any] = [SimpleNamespace(nodeid=f"tests/{at}.py::test") for at in ("a", "a", "b")]
    for item, following in zip(tests, [*tests[1:], None], strict=True):
        around = report.pytest_runtest_protocol(item, following)
        next(around)
        with pytest.raises(StopIteration):
            next(around)
    assert set(report.seconds) == {"tests/a.py", "tests/b.py"}
    assert min(report.seconds.values()) > 0
