"""Distributed backward passes over two processes, against torch's."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from ..harness import Row
from .rpc import compare_couples, serve, stand_by, warn_nobody

NEEDS = ("zmq",)
# case: (work, turns per sample, ratio to reach)
CASES: dict[str, tuple[str, int, float | None]] = {
    "enter a context and leave it": ("context", 200, 1.0),
    "add 8x8 forward": ("forward", 50, None),
    "add 8x8, forward and backward": ("tiny", 50, 0.6),
    "add 4 MB, forward and backward": ("large", 5, 0.8),
    "8 calls of add 8x8, forward and backward": ("many", 10, None),
}


def run(rounds: int) -> list[Row]:
    """Compare small round trips and their parts, large tensors, and passes with many calls."""
    return compare_couples(__name__, CASES, rounds)


def add(a: Any, b: Any) -> Any:
    """Return a + b; the other worker calls it."""
    return a + b


def _works(rpc: Any, autograd: Any, ones: Callable[..., Any]) -> dict[str, Callable[[int], None]]:
    a, b = ones(8, 8, requires_grad=True), ones(8, 8, requires_grad=True)
    c, d = ones(1024, 1024, requires_grad=True), ones(1024, 1024, requires_grad=True)

    def repeat(work: Callable[[int], None]) -> Callable[[int], None]:
        def times(number: int) -> None:
            for _ in range(number):
                with autograd.context() as context_id:
                    work(context_id)

        return times

    def backward(x: Any, y: Any, calls: int = 1) -> Callable[[int], None]:
        def work(context_id: int) -> None:
            parts = [rpc.rpc_sync("w1", add, (x, y)).sum() for _ in range(calls)]
            autograd.backward(context_id, parts)

        return repeat(work)

    return {
        "context": repeat(lambda context_id: None),
        "forward": repeat(lambda context_id: rpc.rpc_sync("w1", add, (a, b)).sum()),
        "tiny": backward(a, b),
        "large": backward(c, d),
        "many": backward(a, b, 8),
    }


def _live(library: str, rank: int, connection: Connection) -> None:
    if library == "torch":
        import torch
        from torch.distributed import autograd, rpc

        torch.set_num_threads(1)
        warn_nobody()
        ones: Callable[..., Any] = torch.ones
    else:
        import fastdist
        from fastdist.distributed import autograd, rpc

        ones = fastdist.ones
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2)
    if rank == 0:
        serve(_works(rpc, autograd, ones), connection)
    else:
        stand_by()
    rpc.shutdown()


if __name__ == "__main__":
    # Imported by name, because other workers cannot look up functions in __main__.
    live = importlib.import_module("bench.distributed.distributed_backward")._live
    live(sys.argv[1], int(sys.argv[2]), Connection(int(sys.argv[3])))
