"""The cost of a program's start: first ops with a full or an empty kernel cache, and kernel calls.

Each figure comes from new processes and is printed next to its bound; the benchmark fails if a
figure is above its bound. An earlier process has filled the full cache. The CPU time and memory of
a first op do not include `import fastdist`. The memory of a worker is that of one worker in a job
of two, after its first kernel.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import NamedTuple

from bench.harness import Failed, Row

NEEDS = ("zmq",)
_MOST_ROUNDS = 5
_HEAD = """
import time
import fastdist as torch
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 1e6
"""
# The operands exist before the measurement, and the 4 MB of the result are subtracted.
_FIRST = """
x = torch.ones(1000, 1000)
cpu, memory = time.process_time(), resident()
y = {call}
print(time.process_time() - cpu, resident() - memory - 4)
"""
_CALLS = """
import timeit
import numpy as np
from fastdist.kernels.cpu.jit.launch import row_launcher
from fastdist.kernels.cpu.index import place_pairs
x, places, out = np.zeros(9, np.uint32), np.zeros(3, np.int64), np.zeros(3, np.uint32)
loop = place_pairs._loops.take_line
loop(x, places, out)
run = loop._functions[0]
print(min(timeit.repeat(lambda: run(x, places, out), number=100_000, repeat=9)) / 100_000, 0)
"""
# NumPy computes until a thread has loaded the compiled loop.
_FEW = """
x = torch.ones(8, 64)
cpu = time.process_time()
for _ in range(10_000):
    x.softmax(-1)
print(time.process_time() - cpu, 0)
"""
_COMPILE_FEW = """
from fastdist.kernels.cpu.rows import small_loops
assert small_loops.compiled("small_softmax", "float32") is not None
"""
_WORKER = """
import os
from fastdist.distributed import rpc
def first_kernel():
    x = torch.ones(300, 300)
    (x + x).softmax(-1)
    return resident()
rank = int(os.environ["RANK"])
rpc.init_rpc(f"worker{rank}", rank=rank, world_size=2)
if rank == 0:
    print(0, rpc.rpc_sync("worker1", first_kernel))
rpc.shutdown()
"""
WARM = (sys.executable, "-m", "fastdist", "info", "--warm")


class Figure(NamedTuple):
    """One figure: its name, its value, its bound and its unit."""

    name: str
    value: float
    bound: float
    unit: str

    def __str__(self) -> str:
        mark = "!" if self.value > self.bound else " "
        return f"{self.name:46}{self.value:>9.3f}{self.bound:>9.3f} {self.unit}{mark}"


def run(rounds: int) -> list[Row]:
    """Print each figure next to its bound.

    Raises  Failed for figures above their bound
    """
    rounds = min(rounds, _MOST_ROUNDS)
    print(f"{rounds} fresh processes each, medians\n{'':46}{'now':>9}{'bound':>9}")
    figures = list(_figures(rounds))
    for figure in figures:
        print(figure)
    late = [figure.name for figure in figures if figure.value > figure.bound]
    if late:
        raise Failed(f"above their bounds: {', '.join(late)}", [])
    return []


def _figures(rounds: int) -> list[Figure]:
    with tempfile.TemporaryDirectory() as full:
        first, calls = _HEAD + _FIRST.format(call="x + x"), _HEAD + _CALLS
        few = _HEAD + _FEW
        for script in (first, calls):
            _told(script, full)
        _run(_HEAD + _COMPILE_FEW, full)
        cpu, memory = _medians(lambda: _told(first, full), rounds)
        seconds, _ = _medians(lambda: _told(calls, full), rounds)
        softmax, _ = _medians(lambda: _told(few, full), rounds)
        _told_by_a_job(full)
        _, worker = _medians(lambda: _told_by_a_job(full), rounds)
    drawn, _ = _medians(_cold_draw, rounds)
    return [
        Figure("first large op, full cache: CPU", cpu, 0.1, "s"),
        Figure("first large op, full cache: memory", memory, 15.0, "MB"),
        Figure("a worker after its first kernel", worker, 50.0, "MB"),
        Figure("a call of a compiled kernel", seconds * 1e6, 0.3, "us"),
        Figure("first 10,000 softmax of 8x64, full cache: CPU", softmax, 0.1, "s"),
        Figure("first randn(1e6), empty cache: CPU", drawn, 1.0, "s"),
        Figure("info --warm, empty cache, two cores", _warming(), 20.0, "s"),
    ]


def _medians(measure: Callable[[], tuple[float, float]], rounds: int) -> tuple[float, float]:
    found = [measure() for _ in range(rounds)]
    return statistics.median(a for a, _ in found), statistics.median(b for _, b in found)


def _environment(cache: str, **more: str) -> dict[str, str]:
    environment = {**os.environ, "FASTDIST_CACHE_DIR": cache, "NUMBA_NUM_THREADS": "2", **more}
    environment.pop("OMP_NUM_THREADS", None)
    environment.pop("FASTDIST_SHIPPED_CACHE_DIR", None)
    return environment


def _told(script: str, cache: str) -> tuple[float, float]:
    """Run a script, and return the two numbers that it prints."""
    first, second = map(float, _run(script, cache).split())
    return first, second


def _run(script: str, cache: str) -> str:
    """Run a script, and return its standard output."""
    return subprocess.run(
        [sys.executable, "-c", script], env=_environment(cache), capture_output=True, text=True,
        check=True,
    ).stdout  # fmt: skip


def _told_by_a_job(cache: str) -> tuple[float, float]:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "job.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(_HEAD + _WORKER)
        done = subprocess.run(
            [sys.executable, "-m", "fastdist", "run", "-n", "2", path], env=_environment(cache),
            capture_output=True, text=True, check=True,
        )  # fmt: skip
    words = done.stdout.split()[-2:]
    return float(words[0].rpartition("]")[2]), float(words[1])


def _cold_draw() -> tuple[float, float]:
    with tempfile.TemporaryDirectory() as empty:
        return _told(_HEAD + _FIRST.format(call="torch.randn(1000, 1000)"), empty)


def _warming() -> float:
    """Return how long `fastdist info --warm` takes with an empty cache."""
    with tempfile.TemporaryDirectory() as empty:
        start = time.perf_counter()
        subprocess.run(WARM, env=_environment(empty), capture_output=True, check=True)
        return time.perf_counter() - start
