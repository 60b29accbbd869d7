"""The waiting time of first calls with large tensors, in new processes with empty and full caches.

Each round starts three processes, one after the other. The first has an empty kernel cache and
calls some ops for the first time; the second has the cache that the first one filled. The third has
an empty cache and FASTDIST_START=numpy: NumPy serves elementwise calls while another thread
compiles. At the end `fastdist info --warm` runs twice: with an empty cache, and with the full one.
The targets are in seconds, for a machine without other work.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

from bench.harness import Row

# On 1000 x 1000 float32, called in this order; the first call also waits for Numba to load.
CALLS = {
    "x + y": "x + y",
    "x * y": "x * y",
    "exp": "x.exp()",
    "gelu": "F.gelu(x)",
    "sin": "x.sin()",
    "x > y": "x > y",
    "x + row": "x + row",
    "gelu backward": "F.gelu(g).backward(y)",
    "sum": "x.sum(-1)",
    "softmax": "x.softmax(-1)",
    "layer_norm": "F.layer_norm(x, (1000,))",
    "Adam": "torch.optim.Adam([p], lr=1e-3).step()",
    "randn": "torch.randn(1000, 1000)",
    "gather": "x.gather(1, i)",
    "conv2d": "F.conv2d(images, weights, padding=1)",
    "max_pool2d": "F.max_pool2d(images, 2)",
    "batch_norm": "F.batch_norm(images, None, None, training=True)",
    "LSTM": "torch.nn.LSTM(64, 64)(y[:, :640].reshape(100, 100, 64))",
}
AIM_WARM_S, AIM_FIRST_S, AIM_LATER_S = 0.5, 2.5, 0.7
AIM_COMPILED_S = 20.0
_MOST_ROUNDS = 5
WARM = (sys.executable, "-m", "fastdist", "info", "--warm")

_SCRIPT = """
import json, sys, time
import fastdist as torch
from fastdist.nn import functional as F
x, y, row, p = torch.rand(1000, 1000), torch.rand(1000, 1000), torch.rand(1000), torch.rand(1000, 1000)
g = torch.rand(1000, 1000, requires_grad=True)
p.requires_grad_().grad = y
i = torch.randint(0, 1000, (1000, 1000))
images, weights = torch.rand(32, 16, 32, 32), torch.rand(16, 16, 3, 3)
waits = {}
for name, text in json.load(sys.stdin).items():
    call = eval(f"lambda: {text}")
    start = time.perf_counter(), time.process_time()
    call()
    waits[name] = time.perf_counter() - start[0], time.process_time() - start[1]
print(json.dumps(waits))
"""  # noqa: E501

Waits = dict[str, tuple[float, float]]


def run(rounds: int) -> list[Row]:
    """Print the wait of each call next to its target; without a peer there are no rows."""
    rounds = min(rounds, _MOST_ROUNDS)
    cold, warm, by_numpy = [], [], []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as cache:
            cold.append(_fresh_process(cache))
            warm.append(_fresh_process(cache))
        with tempfile.TemporaryDirectory() as cache:
            by_numpy.append(_fresh_process(cache, FASTDIST_START="numpy"))
    print(f"{rounds} fresh processes each; seconds, median (of which CPU time)")
    print(f"{'':16}{'empty cache':>18}{'aim':>6}{'full cache':>18}{'aim':>6}{'numpy, empty':>18}")
    for name in CALLS:
        is_first = name == next(iter(CALLS))
        empty = _column(cold, name, AIM_FIRST_S if is_first else AIM_LATER_S)
        full = _column(warm, name, AIM_WARM_S)
        print(f"{name:16}{empty}{full}{_column(by_numpy, name, None)}")
    with tempfile.TemporaryDirectory() as cache:
        compiled, kept = ([{"info --warm": _warming(cache)}] for _ in range(2))
        columns = (_column(one, "info --warm", AIM_COMPILED_S) for one in (compiled, kept))
        print(f"{'info --warm':16}{''.join(columns)}")
    return []


def _environment(cache: str, **more: str) -> dict[str, str]:
    environment = {**os.environ, "FASTDIST_CACHE_DIR": cache, "NUMBA_NUM_THREADS": "2", **more}
    # Use the default threads of a small machine, unlike the other benchmarks, because several
    # threads might need other kernels than one thread does.
    environment.pop("OMP_NUM_THREADS", None)
    environment.pop("FASTDIST_SHIPPED_CACHE_DIR", None)
    return environment


def _fresh_process(cache: str, **more: str) -> Waits:
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT],
        input=json.dumps(CALLS), env=_environment(cache, **more), capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    waits: Waits = json.loads(done.stdout)
    return waits


def _warming(cache: str) -> tuple[float, float]:
    """Return how long `fastdist info --warm` takes, in wall time and in CPU time."""
    start, before = time.perf_counter(), _cpu_of_children()
    subprocess.run(WARM, env=_environment(cache), capture_output=True, check=True)
    return time.perf_counter() - start, _cpu_of_children() - before


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _column(processes: list[Waits], name: str, aim: float | None) -> str:
    wall, cpu = (statistics.median(waits[name][which] for waits in processes) for which in (0, 1))
    text = f"{f'{wall:.3f} ({cpu:.3f})':>18}"
    return text if aim is None else f"{text}{aim:>5}{'!' if wall > aim else ' '}"
