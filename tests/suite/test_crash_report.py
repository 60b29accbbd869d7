"""The summary of a run shows the place where a process of xdist crashed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.launch import forked_programs

CONFTEST = """
from tests.crash_report import CrashReport

def pytest_configure(config):
    config.pluginmanager.register(CrashReport({folder!r}))
"""
CRASHES = {
    "status -11": "import ctypes\n    ctypes.string_at(0)",
    "status -9": "import os, signal\n    os.kill(os.getpid(), signal.SIGKILL)",
    "status 1": "import threading, ctypes\n    ctypes.PyDLL(None).sleep(60)",
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("status", CRASHES)
def test_the_summary_shows_how_and_where_a_process_ended(status: str, tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST.format(folder=str(tmp_path)))
    test = tmp_path / "test_crash.py"
    test.write_text(f"def test_that_crashes():\n    {CRASHES[status]}\n")
    options = ("-o", "faulthandler_timeout=1", "-o", "faulthandler_exit_on_timeout=true")
    words = ["-m", "pytest", "-n1", "--rootdir", str(tmp_path), *options, str(test)]
    done = forked_programs.run(words, ROOT)
    _, found, summary = done.stdout.partition(f"gw0 ended with {status}")
    assert found, done.stdout + done.stderr
    shown = "faulthandler wrote nothing" if status == "status -9" else "in test_that_crashes"
    assert shown in summary
    assert done.returncode == 1
