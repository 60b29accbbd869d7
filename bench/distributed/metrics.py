"""The overhead of metrics: calls and steps of two workers, with and without Prometheus's reads."""

from __future__ import annotations

import importlib
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing.connection import Connection
from typing import Any

from ..harness import Case, Row, compare, stopwatch
from ..kept_port import KeptPort
from .rpc import Couple, nothing, same, serve, stand_by

NEEDS = ("zmq", "prometheus_client")
# The seconds between two reads of the metrics. Prometheus's default is 15 s.
_EVERY_S = 1.0
# case: (work, turns per sample, ratio to reach)
CASES: dict[str, tuple[str, int, float | None]] = {
    "rpc_sync, None: read every second / off": ("call", 200, 1.05),
    "rpc_sync, 1 KB tensor: read every second / off": ("tensor", 200, 1.05),
    "DDP step, MLP 64-64-10: read every second / off": ("step", 20, 1.05),
}


def run(rounds: int) -> list[Row]:
    """Compare calls and steps with FASTDIST_METRICS_PORT; the peer is fastdist without it."""
    with ExitStack() as ends:
        ports = [KeptPort(), KeptPort()]
        for port in ports:
            ends.callback(port.close)
        served = [{"FASTDIST_METRICS_PORT": str(port.number)} for port in ports]
        couples = []
        for variables in (served, [{}, {}]):
            couples.append(Couple("fastdist", __name__, of_ranks=variables))
            ends.callback(couples[-1].end)
            couples[-1].warm_up(*(what for what, _, _ in CASES.values()))
        on, off = couples
        cases = [
            Case(name, on.stopwatch(what), off.stopwatch(what), target=goal, number=number)
            for name, (what, number, goal) in CASES.items()
        ]
        with read_now_and_again([port.number for port in ports]) as reads:
            rows = compare(cases, rounds)
            print(f"each worker's page was read {len(reads) // 2} times", flush=True)
        page = stopwatch(lambda: read_page(ports[0].number))
        return rows + compare([Case("one read of /metrics", page, number=20)], rounds)


def read_page(port: int) -> int:
    """Read the metrics page of a worker, and return its length.

    Raises  OSError if the page cannot be read
    """
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", None, 10) as page:
        return len(page.read())


@contextmanager
def read_now_and_again(ports: list[int]) -> Iterator[list[int]]:
    """Read the page of each port periodically, as Prometheus does; yield the list to which the
    lengths of the pages are added.

    Raises  at the end, the error of a page that could not be read
    """
    lengths: list[int] = []
    errors: list[OSError] = []
    closing = threading.Event()

    def read() -> None:
        while not closing.wait(_EVERY_S):
            for port in ports:
                try:
                    lengths.append(read_page(port))
                except OSError as error:
                    errors.append(error)
                    return

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield lengths
    finally:
        closing.set()
        reader.join()
    if errors:
        raise errors[0]


# ---- in a worker --------------------------------------------------------------------------------


def _live(library: str, rank: int, connection: Connection) -> None:
    import fastdist as torch
    from fastdist import distributed as dist
    from fastdist.distributed import rpc

    dist.init_process_group("gloo", rank=rank, world_size=2)
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2)
    _trainers.append(_Trainer(torch))
    dist.barrier()
    if rank == 0:
        serve(_works(rpc, torch.zeros(256)), connection)
    else:
        stand_by()
    rpc.shutdown()
    dist.destroy_process_group()


class _Trainer:
    """Data-parallel training steps of a small model."""

    def __init__(self, torch: Any) -> None:
        torch.manual_seed(0)
        layers = torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10)
        self.model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*layers))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.inputs = torch.randn(32, 64)

    def step(self, number: int) -> None:
        """Do some steps, together with the other worker."""
        for _ in range(number):
            self.optimizer.zero_grad()
            self.model(self.inputs).square().mean().backward()
            self.optimizer.step()


_trainers: list[_Trainer] = []


def make_steps(number: int) -> None:
    """Do some steps here; the other worker calls this."""
    _trainers[0].step(number)


def _works(rpc: Any, tensor: Any) -> dict[str, Callable[[int], None]]:
    def step(number: int) -> None:
        there = rpc.rpc_async("w1", make_steps, (number,))
        make_steps(number)
        there.wait()

    def sync(function: Callable[..., Any], args: tuple[Any, ...]) -> Callable[[int], None]:
        def work(number: int) -> None:
            for _ in range(number):
                rpc.rpc_sync("w1", function, args)

        return work

    return {"call": sync(nothing, ()), "tensor": sync(same, (tensor,)), "step": step}


if __name__ == "__main__":
    # Imported by name, because other workers cannot look up functions in __main__.
    live = importlib.import_module("bench.distributed.metrics")._live
    live(sys.argv[1], int(sys.argv[2]), Connection(int(sys.argv[3])))
