"""The benchmark of faults kills workers, lets calls time out, and reports the worst delay."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.distributed.faults import KILLS_A_ROUND, TIMEOUTS_A_ROUND, percentile

pytestmark = pytest.mark.usefixtures("forks")


ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(("share", "expected"), [(0.5, 50.0), (0.99, 99.0), (1.0, 100.0), (0, 1.0)])
def test_a_percentile_is_one_of_what_was_measured(share: float, expected: float) -> None:
    assert percentile([float(i) for i in range(1, 101)], share) == expected


@pytest.mark.one_in(4)
def test_the_benchmark_of_faults_counts_every_caller_of_every_kill(tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"
    ran = subprocess.run(
        [sys.executable, "-m", "bench", "faults", "--rounds", "2", "--json", str(figures)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    # Each of the two callers has three pending calls.
    assert f"{2 * KILLS_A_ROUND} kills, {2 * KILLS_A_ROUND * 6} errors: p50" in ran.stdout
    assert f"{2 * TIMEOUTS_A_ROUND} errors: p50" in ran.stdout
    kill, kill_tail, late, late_tail = json.loads(figures.read_text())["results"][0]["rows"]
    assert 0 < kill["ours_s"]["median"] <= kill_tail["ours_s"]["median"] < 5
    # Rounding may make a timeout slightly early. The longest delay has no bound here, because the
    # machine may have been stopped.
    assert -0.001 <= late["ours_s"]["low"] <= late["ours_s"]["median"] < 1
    assert late["ours_s"]["median"] <= late_tail["ours_s"]["median"]
