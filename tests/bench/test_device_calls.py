"""Calls on cuda are timed with empty kernels; each time is printed next to its bound."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench import ops
from bench.__main__ import missed
from bench.harness import Case, compare

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = """
import json
from bench.gpus import device_calls
cases = device_calls.cases()
print(json.dumps([(case.name, case.peer(1) / case.parts, case.ours(1)) for case in cases]))
"""


@pytest.mark.one_in(3)
def test_each_case_tells_its_launches_and_is_held_against_its_bound() -> None:
    # A separate process, because the stand-in replaces CuPy permanently.
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=ROOT, capture_output=True, text=True, check=True
    )
    found = {name: (bound, seconds) for name, bound, seconds in json.loads(done.stdout)}
    bounds = {name: round(bound * 1e6, 6) for name, (bound, _) in found.items()}
    assert bounds["x + y (1 launches)"] == bounds["sum (1 launches)"] == 3
    assert bounds["x.T + y.T (1 launches)"] == bounds["linear with a bias (1 launches)"] == 5
    assert bounds["view (0 launches)"] == 5
    assert bounds["one more Node: mul (2 launches)"] == 15
    assert bounds["one more Node: mul of two that require grad (4 launches)"] == 15
    assert bounds["one more Node: linear (2 launches)"] == 15
    assert bounds["one more Node: matmul of two that require grad (4 launches)"] == 18
    assert bounds["one more parameter: Adam, foreach (0.01 launches)"] == 2
    assert all(seconds > 0 for name, (_, seconds) in found.items() if "more" not in name)


def test_a_ratio_above_its_target_is_told() -> None:
    def takes(seconds: float) -> Any:
        return lambda turns: seconds * turns

    cases = [
        Case("slow", takes(2e-3), takes(1e-3), 1.0),
        Case("quick", takes(1e-3), takes(2e-3), 1.0),
        Case("alone", takes(1e-3)),
    ]
    rows = [
        {
            "name": row.name,
            "target": row.target,
            "ratio": None if row.ratio is None else {"median": row.ratio.median},
        }
        for row in compare(cases, 2)
    ]
    assert list(missed([{"rows": rows}])) == ["slow"]


def test_a_device_that_no_benchmark_knows_is_refused() -> None:
    with pytest.raises(ValueError, match="cpu and shim, not on 'tpu'"):
        ops.run(2, "tpu")
