"""all_reduce and barrier of two and four workers, through memory and sockets, against gloo."""

from __future__ import annotations

import importlib
import os
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import numpy as np

from ..harness import Case, Row, chosen, compare, peer_torch
from .rpc import Couple, serve, warn_nobody

NEEDS = ("zmq",)
# work: (bytes of float32 to sum, or 0 for a barrier; turns per sample)
WORKS = {
    "4 KB": (4 << 10, 100),
    "1 MB": (1 << 20, 20),
    "16 MB": (16 << 20, 4),
    "64 MB": (64 << 20, 1),
    "barrier": (0, 100),
}
# The ratios to reach with two workers, for each transport.
TARGETS: dict[str, dict[str, float]] = {
    "memory": {"4 KB": 0.5, "1 MB": 0.6, "16 MB": 0.6, "64 MB": 0.6, "barrier": 0.5},
    "sockets": dict.fromkeys(("1 MB", "16 MB", "64 MB"), 2.5),
    # Sockets without encryption, for trusted networks.
    "authenticated": dict.fromkeys(("1 MB", "16 MB", "64 MB"), 1.3),
}
# How long workers wait for the next work.
_PATIENCE_S = 3600.0


class Side(NamedTuple):
    """The collectives of one worker, as functions of either library."""

    sum_up: Callable[[Any], None]
    barrier: Callable[[], None]
    # Overwrites an array of two numbers with rank 0's array.
    tell: Callable[[Any], None]
    ones: Callable[[int], Any]
    close: Callable[[], None]


def run(rounds: int) -> list[Row]:
    """Compare all_reduce and barrier of both libraries, with the same data."""
    cases: list[Case] = []
    with ExitStack() as ends:
        for size in (2, 4):
            theirs: Couple | None = None
            for way in TARGETS if size == 2 else ("memory", "sockets"):
                names = {work: f"{size} workers, {way}: {work}" for work in WORKS}
                if not any(chosen() in name for name in names.values()):
                    continue
                if theirs is None and peer_torch() is not None:
                    theirs = _crew("torch", size, ends)
                ours = _crew(f"fastdist {way}", size, ends)
                for work, (_, turns) in WORKS.items():
                    cases.append(
                        Case(
                            names[work],
                            ours.stopwatch(work),
                            None if theirs is None else theirs.stopwatch(work),
                            target=TARGETS[way].get(work) if size == 2 else None,
                            number=turns,
                        )
                    )
        return compare(cases, rounds)


def _crew(library: str, size: int, ends: ExitStack) -> Couple:
    crew = Couple(library, __name__, size)
    ends.callback(crew.end)
    crew.warm_up(*WORKS)
    return crew


def _torch_side(rank: int, size: int) -> Side:
    import torch
    from torch import distributed

    torch.set_num_threads(1)
    warn_nobody()
    distributed.init_process_group("gloo", rank=rank, world_size=size)
    return Side(
        lambda tensor: distributed.all_reduce(tensor) and None,
        lambda: distributed.barrier() and None,
        lambda numbers: distributed.broadcast(torch.from_numpy(numbers), 0) and None,
        torch.ones,
        distributed.destroy_process_group,
    )


def _our_side(rank: int, size: int) -> Side:
    from fastdist.distributed.links import connect
    from fastdist.distributed.process_group.transport import Call
    from fastdist.distributed.store import TCPStore

    host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    store = TCPStore(host, port, is_master=rank == 0)
    transport = connect(store, rank, size, 60.0, notice_s=_PATIENCE_S)
    calls = iter(range(1 << 60))

    def call(name: str, agreed: str) -> Call:
        return Call(next(calls), name, agreed, "collectives.py:1", time.monotonic() + _PATIENCE_S)

    def sum_up(array: Any) -> None:
        transport.all_reduce(call("all_reduce", f"float32, {array.size}, sum"), array, "sum")

    def close() -> None:
        transport.close()
        store.close()

    return Side(
        sum_up,
        lambda: transport.barrier(call("barrier", "")),
        lambda numbers: transport.broadcast(call("broadcast", "root 0"), numbers, 0),
        lambda number: np.ones(number, np.float32),
        close,
    )


def _works(side: Side) -> dict[str, Callable[[int], None]]:
    """Return a dict: work -> the function that repeats the work a given number of times."""

    def summing(nbytes: int) -> Callable[[int], None]:
        def work(number: int) -> None:
            # Created at the first use and reused, because new memory is slower.
            array = arrays.get(nbytes)
            if array is None:
                array = arrays[nbytes] = side.ones(nbytes // 4)
            for _ in range(number):
                side.sum_up(array)

        return work

    def meeting(number: int) -> None:
        for _ in range(number):
            side.barrier()

    arrays: dict[int, Any] = {}
    return {work: summing(size) if size else meeting for work, (size, _) in WORKS.items()}


def _live(library: str, rank: int, connection: Connection) -> None:
    name, _, way = library.partition(" ")
    if way in ("sockets", "authenticated"):
        os.environ["FASTDIST_TRANSPORTS"] = "uv"
        os.environ["FASTDIST_COLLECTIVES_ENCRYPT"] = "1" if way == "sockets" else "0"
    size = int(os.environ["WORLD_SIZE"])
    side = _torch_side(rank, size) if name == "torch" else _our_side(rank, size)
    works = _works(side)
    order = list(works)

    def leading(what: str) -> Callable[[int], None]:
        def work(number: int) -> None:
            side.tell(np.array([order.index(what), number]))
            works[what](number)

        return work

    if rank == 0:
        serve({what: leading(what) for what in works}, connection)
        side.tell(np.array([-1, 0]))
    else:
        told = np.zeros(2, np.int64)
        side.tell(told)
        while told[0] >= 0:
            works[order[told[0]]](int(told[1]))
            side.tell(told)
    side.close()


if __name__ == "__main__":
    # Imported by name, because other workers cannot look up functions in __main__.
    live = importlib.import_module("bench.distributed.collectives")._live
    live(sys.argv[1], int(sys.argv[2]), Connection(int(sys.argv[3])))
