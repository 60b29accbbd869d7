"""Figures measured on a GPU are saved to a file even if the command fails."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import bench.__main__ as command
from bench import kept
from bench.gpus import gpu
from bench.harness import Case, Failed, compare


def takes(seconds: float) -> Any:
    return lambda turns: seconds * turns


QUICK = Case("quick", takes(1e-3), takes(2e-3), 1.0)
SLOW = Case("slow", takes(2e-3), takes(1e-3), 1.0)


def run(monkeypatch: pytest.MonkeyPatch, folder: Path, measure: Any) -> None:
    """Run `bench gpu` with `measure` instead of the real benchmark."""
    told = SimpleNamespace(run=measure, machine=lambda: {"gpu": "NVIDIA H100 80GB HBM3"})
    monkeypatch.setitem(sys.modules, "bench.gpus.gpu", told)
    monkeypatch.setattr(kept, "RESULTS", folder)
    monkeypatch.setattr(sys, "argv", ["bench", "gpu", "--rounds", "2"])
    monkeypatch.setattr(command, "one_thread_each", lambda: None)
    command.main()


def test_figures_are_kept_with_day_gpu_and_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(monkeypatch, tmp_path, lambda rounds: compare([QUICK], rounds))
    names = sorted(path.name for path in tmp_path.iterdir())
    day = names[0][:10]
    stem = f"{day}-nvidia-h100-80gb-hbm3-gpu"
    assert names == [f"{stem}.json", f"{stem}.svg", f"{stem}.txt"]
    figures = json.loads((tmp_path / names[0]).read_text())
    assert figures["date"] == day and len(figures["commit"].rstrip("+")) in (12, len("unknown"))
    assert figures["results"][0]["rows"][0]["name"] == "quick"
    assert "quick" in (tmp_path / names[2]).read_text()


def test_a_missed_target_fails_and_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit, match="above their bounds: slow") as ended:
        run(monkeypatch, tmp_path, lambda rounds: compare([SLOW, QUICK], rounds))
    assert ended.value.code not in (0, None) and len([*tmp_path.iterdir()]) == 3


def test_what_is_wrong_fails_and_the_rows_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measure(rounds: int) -> Any:
        raise Failed("2 failed: exp, log", compare([QUICK], rounds))

    with pytest.raises(SystemExit, match="gpu: 2 failed: exp, log"):
        run(monkeypatch, tmp_path, measure)
    (path,) = tmp_path.glob("*.json")
    assert json.loads(path.read_text())["results"][0]["failed"] == "2 failed: exp, log"


def test_without_rows_nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(monkeypatch, tmp_path, lambda rounds: [])
    assert not [*tmp_path.iterdir()]


def test_groups_begin_while_there_is_time_and_the_others_are_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])

    def group(case: Case, seconds: float) -> Any:
        def make() -> list[Case]:
            now[0] += seconds
            return [case]

        return make

    groups = {"a": group(QUICK, 100.0), "b": group(SLOW, 500.0), "c": group(QUICK, 1.0)}
    with pytest.raises(Failed, match="8 minutes were too short for: c") as failed:
        gpu.measured(groups, 5, 480.0)
    # A case that has started gets at least two rounds, because its spread needs two.
    assert [(row.name, row.rounds) for row in failed.value.rows] == [("quick", 5), ("slow", 2)]
