"""`bench gpu_day` runs completely on a stand-in for a GPU, and continues after any failure."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.gpus import day_sections
from bench.gpus.day_report import FAILED, LATE, LEFT_OUT, PASSED, Report, read, status_of
from bench.gpus.gpu_day import MINUTES, SECTIONS, summary

ROOT = Path(__file__).resolve().parents[2]

# A program that runs sections that pass, fail, raise, hang, are killed by a signal or are skipped.
SCRIPT = """
import os, signal, sys, threading
from pathlib import Path
import fastdist
from bench.gpus import gpu_day
from bench.gpus.day_sections import Day
from bench.gpus.gpu_day import Section

def machine(report, day):
    report.fact("gpu", "Made Up 1")
    report.check("a GPU computes", True)

def fails(report, day):
    report.check("one and one", False, "3")

def raises(report, day):
    report.figure("before", 1.0, "us")
    raise ValueError("wrong\\nin two lines")

def hangs(report, day):
    report.check("before", True)
    if os.fork() == 0:  # what it has started ends with it
        print("child", os.getpid(), flush=True)
        threading.Event().wait()
    threading.Event().wait()

def killed(report, day):
    os.kill(os.getpid(), signal.SIGSEGV)

def absent(report, day):
    report.leave_out("all of it", "there is none")

sections = {"machine": Section(machine, 20), "fails": Section(fails, 20),
            "raises": Section(raises, 20), "hangs": Section(hangs, 0.3),
            "killed": Section(killed, 20), "absent": Section(absent, 20),
            "at the end": Section(machine, 20)}
gpu_day.day(Day(2, True), Path(sys.argv[1]), sections)
gpu_day.day(Day(2, True), Path(sys.argv[2]), sections, minutes=0.0)
gpu_day.day(Day(2, True), Path(sys.argv[2]), {**sections, "machine": Section(absent, 20)})
"""


def python(*words: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *map(str, words)],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )


# This takes 8 s, in a process for each section. Other tests of this folder run the cases alone.
@pytest.mark.one_in(6)
def test_the_whole_day_runs_on_a_stand_in() -> None:
    done = python("-m", "bench", "gpu_day", "--device", "fibres", "--rounds", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    last = done.stdout.strip().splitlines()[-1]
    assert last == f"{len(SECTIONS) - 1} passed, 0 failed, 0 too late, 1 left out"
    for words in (
        "a captured convolution keeps its compute type",
        "a Node, there and back",
        "ResNet-18, 64 images of 128 x 128, captured",
        "CPU Nodes behind them run on the pool",
        "Duplicate GPU detected",
        "all_reduce in a graph",
        "3 of 3",
    ):
        assert words in done.stdout
    assert "FAIL" not in done.stdout and not list(ROOT.glob("bench/results/*fibres*"))


@pytest.mark.one_in(3)
def test_what_goes_wrong_in_a_section_does_not_stop_the_next(tmp_path: Path) -> None:
    kept, other = tmp_path / "kept", tmp_path / "other"
    done = python("-c", SCRIPT, kept, other)
    assert done.returncode == 0, done.stderr
    (file,) = kept.glob("*.json")
    figures = json.loads(file.read_text())
    assert file.name.endswith("-made-up-1-gpu-day.json") and figures["gpu"] == "Made Up 1"
    assert figures["date"] in file.name and "commit" in figures and "cpu" in figures["machine"]
    found = {one["section"]: one for one in figures["sections"]}
    assert {name: one["status"] for name, one in found.items()} == {
        "machine": PASSED,
        "fails": FAILED,
        "raises": FAILED,
        "hangs": LATE,
        "killed": FAILED,
        "absent": LEFT_OUT,
        "at the end": PASSED,
    }
    assert found["raises"]["errors"] == ["ValueError: wrong"]
    assert found["raises"]["figures"] == [{"name": "before", "value": 1.0, "unit": "us"}]
    assert found["hangs"]["checks"] == [{"name": "before", "passed": True, "found": ""}]
    assert found["killed"]["errors"] == ["RuntimeError: the process ended by SIGSEGV"]
    assert file.with_suffix(".txt").read_text() == summary(figures["sections"]) + "\n"
    (child,) = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("child ")]
    assert not Path(f"/proc/{child}").exists() or "Z" in Path(f"/proc/{child}/stat").read_text()
    # A run with no minutes left and a run without a GPU end immediately and write no file.
    *_, of_no_time, of_no_gpu = done.stdout.strip().rsplit("\n\nmachine\n", 2)
    assert "left out: machine: 0 minutes are over" in of_no_time
    assert "fails" not in of_no_time + of_no_gpu
    assert of_no_gpu.endswith("0 passed, 0 failed, 0 too late, 1 left out")
    assert not other.exists()


def test_a_report_that_is_cut_short_has_what_came_before(tmp_path: Path) -> None:
    path = tmp_path / "report"
    assert read(path) == []
    report = Report(path)
    report.check("first", True)
    with path.open("a") as file:
        file.write('{"entry": "che')
    assert read(path) == [{"entry": "check", "name": "first", "passed": True, "found": ""}]
    assert status_of(read(path), is_late=True) == LATE
    assert status_of(read(path), is_late=False) == PASSED


def test_the_sections_fit_into_twelve_minutes_but_for_the_last() -> None:
    *first, last = SECTIONS.values()
    assert sum(section.limit_s for section in first) <= (MINUTES - 0.5) * 60 < 12 * 60
    assert last.work is day_sections.every_op


def test_every_file_with_tests_for_a_gpu_is_run() -> None:
    marked = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "tests").rglob("test_*.py")
        if "mark.gpu" in path.read_text() and path.name != "test_gpu_day.py"
    }
    assert {*day_sections.TESTS} == marked
