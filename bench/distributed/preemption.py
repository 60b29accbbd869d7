"""The cost of preempted() per step, next to all_reduce of one number; the cost of get_metrics."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..harness import Row, Spread

NEEDS = ("zmq",)
_CALLS = 20_000
_SUMS = 200
_READINGS = 100
_BOUND_S = 120.0
_FIGURES = (
    ("preempted, no signal", "preempted"),
    ("all_reduce of one number", "all_reduce"),
    ("get_metrics of a worker", "reading"),
)


def run(rounds: int) -> list[Row]:
    """Measure two workers of one job; each round is a new job."""
    found: dict[str, list[float]] = {}
    for _ in range(rounds):
        for name, seconds in run_job().items():
            found.setdefault(name, []).append(seconds)
    rows = []
    for name, key in _FIGURES:
        spread = Spread.of(found[key])
        print(f"{name}: {spread.median * 1e6:.2f} us", flush=True)
        rows.append(Row(name, spread, None, None, None, rounds))
    return rows


def run_job() -> dict[str, float]:
    """Run one job, and return the seconds of each call on rank 0."""
    ran = subprocess.run(
        [sys.executable, "-m", "fastdist.run", "-n", "2", "-m", "bench.distributed.preemption"],
        cwd=Path(__file__).resolve().parents[2],
        env=dict(os.environ),
        capture_output=True,
        text=True,
        timeout=_BOUND_S,
        check=False,
    )
    told = [line.partition("{")[2] for line in ran.stdout.splitlines() if "[rank 0] {" in line]
    if ran.returncode or len(told) != 1:
        raise RuntimeError(f"the job ended with status {ran.returncode}: {ran.stderr[-2_000:]}")
    figures: dict[str, float] = json.loads("{" + told[0])
    return figures


# ---- in a worker --------------------------------------------------------------------------------


def work() -> dict[str, float]:
    """Time each function, and return the seconds per call."""
    import fastdist as torch
    from fastdist import distributed as dist
    from fastdist.distributed import monitor, rpc

    dist.init_process_group("gloo")
    rpc.init_rpc(f"w{dist.get_rank()}")
    one = torch.zeros(1)
    figures = {
        "preempted": per_call(dist.preempted, _CALLS),
        "all_reduce": per_call(lambda: dist.all_reduce(one), _SUMS),
        "reading": per_call(monitor.get_metrics, _READINGS),
    }
    rpc.shutdown()
    dist.destroy_process_group()
    return figures


def per_call(function: Callable[[], Any], count: int) -> float:
    """Return the seconds per call, without the first call."""
    function()
    began = time.perf_counter()
    for _ in range(count):
        function()
    return (time.perf_counter() - began) / count


if __name__ == "__main__":
    module = importlib.import_module("bench.distributed.preemption")
    print(json.dumps(module.work()), flush=True)
