"""The durations of first calls are measured in new processes and printed next to their targets."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench import first_calls
from tests.kernels.cpu.processes import cache_with_runner
from tests.launch.forked_programs import ForkedPopen


class Folders:
    """Replaces `tempfile`. Its second folder, for the run on NumPy, already contains the compiled
    runner of pointwise loops; without the runner a thread would compile it for 3 s.
    """

    def __init__(self) -> None:
        self.made = 0

    @contextlib.contextmanager
    def TemporaryDirectory(self) -> Iterator[str]:
        self.made += 1
        with tempfile.TemporaryDirectory() as folder:
            yield str(cache_with_runner(Path(folder))) if self.made == 2 else folder


@pytest.mark.one_in(5)
def test_each_call_stands_beside_its_aims(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(subprocess, "Popen", ForkedPopen)  # a forked process has no Numba yet
    monkeypatch.setattr(first_calls, "tempfile", Folders())
    monkeypatch.setattr(first_calls, "CALLS", {"x + y": "x + y", "x > y": "x > y"})
    monkeypatch.setattr(first_calls, "_MOST_ROUNDS", 1)
    monkeypatch.setattr(first_calls, "WARM", (sys.executable, "-c", "pass"))
    assert first_calls.run(2) == []
    lines = [line.rstrip("! ").split() for line in capsys.readouterr().out.splitlines()]
    [first] = [line for line in lines if line[:3] == ["x", "+", "y"]]
    [later] = [line for line in lines if line[:3] == ["x", ">", "y"]]
    aims = [[float(line[at].rstrip("!")) for at in (5, 8)] for line in (first, later)]
    assert aims == [[2.5, 0.5], [0.7, 0.5]]
    # Compare CPU times: on a busy machine either of the two wall times may be longer.
    assert float(first[4].strip("()")) > float(later[4].strip("()")) > 0
    # Column 9 is the time on NumPy while a thread compiles.
    assert all(len(line) == 11 and float(line[9]) > 0 for line in (first, later))
    assert any(line[:2] == ["info", "--warm"] and line[4] == line[7] == "20.0" for line in lines)


def test_warming_is_timed_in_a_process_that_finds_the_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    leave = "import os, pathlib; (pathlib.Path(os.environ['FASTDIST_CACHE_DIR']) / 'left').touch()"
    monkeypatch.setattr(first_calls, "WARM", (sys.executable, "-c", leave))
    wall, cpu = first_calls._warming(str(tmp_path))
    assert (tmp_path / "left").exists() and wall > 0 and cpu > 0


def test_what_is_over_its_aim_is_marked() -> None:
    waits: list[first_calls.Waits] = [{"x": (0.8, 0.6)}, {"x": (0.9, 0.7)}, {"x": (1.0, 0.8)}]
    assert first_calls._column(waits, "x", 0.7).split() == ["0.900", "(0.700)", "0.7!"]
    assert first_calls._column(waits, "x", 1.0).split() == ["0.900", "(0.700)", "1.0"]
