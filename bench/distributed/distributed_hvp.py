"""Hessian-vector products over three workers: two passes, against one pass with tangents."""

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
# case: (side of the square matrices, products per sample)
CASES = {"8x8": (8, 10), "512x512": (512, 1)}
_BOUND_S = 300.0


def run(rounds: int) -> list[Row]:
    """Compare `hvp`, which differentiates a recorded backward pass, with one pass with tangents."""
    figures = run_group(rounds)
    rows = []
    for case, (ours, others) in figures.items():
        ratio = Spread.of([one / other for one, other in zip(ours, others, strict=True)])
        name = f"hvp, {case}, 3 workers, beside tangents"
        rows.append(Row(name, Spread.of(ours), Spread.of(others), ratio, None, rounds))
    return rows


def run_group(rounds: int) -> dict[str, list[list[float]]]:
    """Run three workers, and return the seconds of both methods for each case.

    Raises  RuntimeError with the workers' output if they fail
    """
    command = [
        sys.executable,
        "-m",
        "fastdist.run",
        "-n",
        "3",
        "-m",
        "bench.distributed.distributed_hvp",
    ]
    ran = subprocess.run(
        [*command, str(rounds)],
        cwd=Path(__file__).resolve().parents[2],
        capture_output=True,
        text=True,
        timeout=_BOUND_S,
        check=False,
    )
    told = [line.partition("{")[2] for line in ran.stdout.splitlines() if "{" in line]
    if ran.returncode or len(told) != 1:
        raise RuntimeError(f"the workers ended with {ran.returncode}:\n{ran.stderr[-2_000:]}")
    figures: dict[str, list[list[float]]] = json.loads("{" + told[0])
    return figures


# ---- in a worker --------------------------------------------------------------------------------


def layer(x: Any, w: Any, *way: str) -> Any:
    """Apply this worker's layer, and send the result to the next worker of `way`."""
    from fastdist.distributed import rpc

    y = (x @ w).tanh()
    return rpc.rpc_sync(way[0], layer, (y, w, *way[1:])) if way else y


def loss(x: Any, w: Any) -> Any:
    """Return a loss after three layers on three workers; its Hessian is multiplied by vectors."""
    return (layer(x, w, "w1", "w2") ** 2).sum()


def work(rounds: int) -> dict[str, list[list[float]]] | None:
    """Join the group; return the measured times on the first worker, and None on others."""
    import fastdist
    from fastdist.distributed import rpc

    rank = int(os.environ["RANK"])
    rpc.init_rpc(f"w{rank}")
    figures: dict[str, list[list[float]]] | None = None
    if rank == 0:
        figures = {}
        for case, (side, times) in CASES.items():
            x, w = fastdist.rand(side, side), fastdist.rand(side, side) / side
            ways = (_by_two_passes, _by_tangents)
            seconds: list[list[float]] = [[], []]
            for at in range(-2, rounds):
                for way, found in zip(ways, seconds, strict=True):
                    took_s = _seconds(way, x, w, times)
                    if at >= 0:
                        found.append(took_s)
            figures[case] = seconds
    rpc.shutdown()
    return figures


def _seconds(way: Callable[[Any, Any], object], x: Any, w: Any, times: int) -> float:
    began = time.perf_counter()
    for _ in range(times):
        way(x, w)
    return (time.perf_counter() - began) / times


def _by_two_passes(x: Any, w: Any) -> Any:
    from fastdist.distributed import autograd

    return autograd.hvp(lambda one: loss(x, one), w, x)[1]


def _by_tangents(x: Any, w: Any) -> Any:
    from fastdist.autograd import forward_ad
    from fastdist.distributed import autograd

    leaf = w.detach().requires_grad_()
    with forward_ad.dual_level(), autograd.context() as context_id:
        autograd.backward(context_id, [loss(x, forward_ad.make_dual(leaf, x))])
        return forward_ad.unpack_dual(autograd.get_gradients(context_id)[leaf]).tangent


if __name__ == "__main__":
    # Imported by name, because other workers cannot look up functions in __main__.
    told = importlib.import_module("bench.distributed.distributed_hvp").work(int(sys.argv[1]))
    if told is not None:
        print(json.dumps(told), flush=True)
