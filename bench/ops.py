"""The eager call path: tiny ops, a chain of Nodes, an MLP step, and the time of the import.

With `--device shim` the benchmark measures the Python overhead of calls on `cuda`, with kernels
that do nothing. The peer column then shows the bound of each call.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from bench.harness import Case, Row, Stopwatch, compare, peer_torch, stopwatch

TINY = {"add": "x + y", "mul": "x * y", "sum": "x.sum()", "matmul": "x @ y"}
IMPORT_LIMIT_S = 0.2


def run(rounds: int, device: str = "cpu") -> list[Row]:
    """Compare tiny ops with and without grad, a chain, and an MLP step; ours against torch.

    Raises  ValueError for a device other than cpu and shim
    """
    import fastdist

    if device == "shim":
        return compare(importlib.import_module("bench.gpus.device_calls").cases(), rounds)
    if device != "cpu":
        raise ValueError(f"ops runs on the devices cpu and shim, not on {device!r}")

    torch = peer_torch()
    cases = [*tiny_cases(fastdist, torch), chain_case(fastdist, torch), mlp_case(fastdist, torch)]
    return [*compare(cases, rounds), *import_rows()]


def tiny_cases(fastdist: Any, torch: Any) -> list[Case]:
    """Return cases of ops on 8x8 float32 tensors, without and with grad; results are discarded."""
    cases = []
    for grad, target in ((False, 0.65), (True, 0.6)):
        for name, statement in TINY.items():
            ours = stopwatch(statement, **_operands(fastdist, grad))
            peer = stopwatch(statement, **_operands(torch, grad)) if torch else None
            title = f"{name} 8x8, {'with' if grad else 'without'} grad"
            cases.append(Case(title, ours, peer, target))
    return cases


def _operands(library: Any, grad: bool) -> dict[str, Any]:
    import numpy as np

    rng = np.random.default_rng(0)
    return {
        name: library.tensor(rng.random((8, 8), dtype=np.float32), requires_grad=grad)
        for name in ("x", "y")
    }


def chain_case(fastdist: Any, torch: Any) -> Case:
    """Return 100 steps y = y * a + b on 8x8 tensors, sum, backward; the time is per Node."""

    def chain(library: Any) -> Stopwatch:
        operands = _operands(library, True)
        a, b = operands["x"], operands["y"]

        def work() -> None:
            y = a
            for _ in range(100):
                y = y * a + b
            y.sum().backward()

        return stopwatch(work)

    peer = chain(torch) if torch else None
    return Case("chain of 200 Nodes, forward and backward", chain(fastdist), peer, 0.65, parts=200)


def mlp_case(fastdist: Any, torch: Any) -> Case:
    """Return an MLP 784-256-256-10 at batch size 64: forward, loss and backward, no optimiser."""
    from fastdist.system.blas import openblas_core, runs_right_core

    core = openblas_core() or "unknown core"
    target = 0.75 if runs_right_core() else 1.0
    ours = stopwatch(mlp_step(fastdist, fastdist.nn.functional.cross_entropy))
    peer = (
        stopwatch(mlp_step(torch, torch.nn.functional.cross_entropy)) if torch is not None else None
    )
    return Case(f"MLP 784-256-256-10, batch 64 ({core})", ours, peer, target)


def mlp_step(library: Any, cross_entropy: Callable[..., Any]) -> Callable[[], None]:
    """Return a function that does one step of the MLP with the given library."""
    import numpy as np

    rng = np.random.default_rng(0)

    def leaf(*shape: int) -> Any:
        values = (rng.standard_normal(shape) * 0.05).astype(np.float32)
        return library.tensor(values, requires_grad=True)

    x = library.tensor(rng.standard_normal((64, 784)).astype(np.float32))
    labels = library.tensor(rng.integers(0, 10, 64))
    weights = [leaf(784, 256), leaf(256, 256), leaf(256, 10)]
    biases = [leaf(256), leaf(256), leaf(10)]

    def step() -> None:
        h = (x @ weights[0] + biases[0]).relu()
        h = (h @ weights[1] + biases[1]).relu()
        loss = cross_entropy(h @ weights[2] + biases[2], labels)
        for leaf in (*weights, *biases):
            leaf.grad = None
        loss.backward()

    return step


def import_rows() -> list[Row]:
    """Return the time of `import fastdist` in a new process, minus the time of a bare interpreter.

    The peer time is the limit of 0.2 s, so an import that exceeds the limit shows as a missed
    target. The bytecode is cached in a temporary folder, even if the environment disables caching.
    """
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": folder}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        ours = _process_stopwatch("import fastdist", environment)
        bare = _process_stopwatch("pass", environment)
        ours(1)

        def difference(n: int) -> float:
            return ours(n) - bare(n)

        def limit(n: int) -> float:
            return IMPORT_LIMIT_S * n

        case = Case("import fastdist (peer: the limit of 0.2 s)", difference, limit, 1.0, number=1)
        return compare([case], 10)


def _process_stopwatch(code: str, environment: dict[str, str]) -> Stopwatch:
    def watch(n: int) -> float:
        start = time.perf_counter()
        for _ in range(n):
            subprocess.run([sys.executable, "-c", code], env=environment, check=True)
        return time.perf_counter() - start

    return watch
