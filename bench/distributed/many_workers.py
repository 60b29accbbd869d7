"""Costs of 8 to 64 workers on a machine: descriptors, memory, and times to start, call and end."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from ..harness import Row, Spread

NEEDS = ("zmq",)
SIZES = (8, 16, 32, 64)
# 64 workers on two cores take about a minute per round, mostly for imports.
_MOST_ROUNDS = 2
_BOUND_S = 600.0
# The variable with which the launching command passes its start time to the workers.
_BEGAN = "FASTDIST_BENCH_BEGAN"
PHASES = ("start", "all-to-all", "end")


def run(rounds: int) -> list[Row]:
    """Let each worker of a `fastdist run` call every other worker once, and print the costs.

    A phase ends when the last worker of the group has completed it. There are at most two rounds,
    whatever `rounds` is.
    """
    rows = []
    for size in SIZES:
        found = [run_group(size) for _ in range(min(rounds, _MOST_ROUNDS))]
        last = found[-1]
        print(
            f"{size} workers: at most {max(last['descriptors']):.0f} descriptors and "
            f"{max(last['threads']):.0f} threads each, {sum(last['resident_mb']) / size:.0f} MB "
            f"resident each on average, {max(last['resident_mb']):.0f} MB at most",
            flush=True,
        )
        for phase in PHASES:
            seconds = [max(figures[phase]) for figures in found]
            rows.append(Row(f"{size} workers: {phase}", Spread.of(seconds), None, None, None, 2))
    return rows


def run_group(size: int) -> dict[str, list[float]]:
    """Run one group, and return each figure of all workers.

    Raises  RuntimeError with the group's output if it fails
    """
    ran = subprocess.run(
        [
            sys.executable,
            "-m",
            "fastdist.run",
            "-n",
            str(size),
            "-m",
            "bench.distributed.many_workers",
        ],
        cwd=Path(__file__).resolve().parents[2],
        env={**os.environ, _BEGAN: str(time.time())},
        capture_output=True,
        text=True,
        timeout=_BOUND_S,
        check=False,
    )
    told = [line.partition("{")[2] for line in ran.stdout.splitlines() if "{" in line]
    if ran.returncode or len(told) != size:
        raise RuntimeError(
            f"{size} workers ended with status {ran.returncode}, {len(told)} of them well:\n"
            + ran.stderr[-2_000:]
        )
    each = [json.loads("{" + line) for line in told]
    return {name: [figures[name] for figures in each] for name in each[0]}


# ---- in a worker --------------------------------------------------------------------------------


def answer(number: int) -> int:
    """Return number + 1; all other workers call this."""
    return number + 1


def work() -> dict[str, Any]:
    """Join, call every other worker once, and leave; return the measured costs."""
    from fastdist.distributed import rpc

    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    rpc.init_rpc(f"w{rank}")
    started = time.time()
    for other in range(size):
        if other != rank and rpc.rpc_sync(f"w{other}", answer, (rank,)) != rank + 1:
            raise AssertionError(f"worker {other} answered with something else")
    called = time.time()
    figures = {
        "start": started - float(os.environ.get(_BEGAN, started)),
        "all-to-all": called - started,
        "descriptors": len(os.listdir("/proc/self/fd")),
        "threads": len(os.listdir("/proc/self/task")),
        "resident_mb": _resident_mb(),
    }
    rpc.shutdown()
    return {**figures, "end": time.time() - called}


def _resident_mb() -> float:
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


if __name__ == "__main__":
    # Imported by name, because other workers cannot look up functions in __main__.
    print(json.dumps(importlib.import_module("bench.distributed.many_workers").work()), flush=True)
