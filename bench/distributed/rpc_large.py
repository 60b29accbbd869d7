"""Calls with large tensors between two processes of one machine, against torch's."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from ..harness import Row
from .rpc import compare_couples, same, serve, stand_by, warn_nobody

NEEDS = ("zmq",)
# case: (work, turns per sample, ratio to reach)
CASES: dict[str, tuple[str, int, float | None]] = {
    "64 KB, and back": ("same 64", 50, None),
    "256 KB, and back": ("same 256", 50, None),
    "1 MB, and back": ("same 1024", 20, 0.7),
    "16 MB, and back": ("same 16384", 4, 0.4),
    "64 KB, callee reads it": ("read 64", 50, None),
    "1 MB, callee reads it": ("read 1024", 20, 0.7),
    "16 MB, callee reads it": ("read 16384", 4, 0.6),
    "256 MB, callee reads it": ("read 262144", 1, None),
}


def run(rounds: int) -> list[Row]:
    """Compare calls that return their tensor, and calls whose callee reads the whole tensor."""
    return compare_couples(__name__, CASES, rounds)


def read(value: Any) -> float:
    """Read every number of a tensor that the other worker sent."""
    return float(value.sum())


def _works(rpc: Any, ones: Callable[[int], Any]) -> dict[str, Callable[[int], None]]:
    def sync(function: Callable[..., Any], kilobytes: int) -> Callable[[int], None]:
        def work(number: int) -> None:
            tensor = tensors.get(kilobytes)
            if tensor is None:
                tensor = tensors[kilobytes] = ones(kilobytes << 8)
            for _ in range(number):
                rpc.rpc_sync("w1", function, (tensor,))

        return work

    tensors: dict[int, Any] = {}
    functions = {"same": same, "read": read}
    works = {}
    for what, _, _ in CASES.values():
        name, kilobytes = what.split()
        works[what] = sync(functions[name], int(kilobytes))
    return works


def _live(library: str, rank: int, connection: Connection) -> None:
    if library == "torch":
        import torch
        from torch.distributed import rpc

        torch.set_num_threads(1)
        warn_nobody()
        ones: Callable[[int], Any] = torch.ones
    else:
        import fastdist
        from fastdist.distributed import rpc

        ones = fastdist.ones
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2)
    if rank == 0:
        serve(_works(rpc, ones), connection)
    else:
        stand_by()
    rpc.shutdown()


if __name__ == "__main__":
    # Imported by name, because other workers cannot look up functions in __main__.
    live = importlib.import_module("bench.distributed.rpc_large")._live
    live(sys.argv[1], int(sys.argv[2]), Connection(int(sys.argv[3])))
