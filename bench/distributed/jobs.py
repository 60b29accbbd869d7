"""Steps of whole jobs over four processes, against torch, with the same source and numbers."""

from __future__ import annotations

import importlib
import math
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from multiprocessing.connection import Connection

from ..harness import Case, Row, compare, peer_torch
from .rpc import Couple, stand_by, warn_nobody

NEEDS = ("zmq",)
WORLD_SIZE = 4
TARGET = 0.8  # the ratio that each job is to reach
# job: steps per sample
JOBS = {
    "demo": 10,
    "model-parallel MLP": 10,
    "pipeline, 1 micro-batch": 5,
    "pipeline, 4 micro-batches": 5,
    "pipeline, 16 micro-batches": 2,
    "parameter server, 2 trainers": 10,
    "batch-updating parameter server": 10,
    "embedding on a server, dense": 5,
    "embedding on a server, sparse": 5,
    "split learning": 10,
    "tensor-parallel linear": 10,
    "IMPALA-like actors and learner": 10,
    "Newton-CG, 10 products": 3,
}
CHECKED = 5  # the number of first steps whose losses are compared
_TOLERANCE = 1e-3  # the sums of float32 have different orders


def run(rounds: int) -> list[Row]:
    """Compare a step of each job, after checking that both libraries' first losses are equal."""
    names = ["fastdist", *(["torch"] * (peer_torch() is not None))]
    crews: list[Crew] = []
    # The stack ends all processes, even if one fails.
    with ExitStack() as ends:
        for name in names:
            crews.append(Crew(name))
            ends.callback(crews[-1].end)
        for job in JOBS:
            require_same(job, [crew.losses(job) for crew in crews])
        cases = [
            Case(job, *(crew.stopwatch(job) for crew in crews), target=TARGET, number=number)
            for job, number in JOBS.items()
        ]
        return compare(cases, rounds)


def require_same(job: str, losses: list[list[float]]) -> None:
    """Raise RuntimeError unless all libraries have the same finite losses."""
    ours, *others = losses
    for theirs in others or [ours]:
        near = [
            math.isclose(one, other, rel_tol=_TOLERANCE, abs_tol=1e-6)
            for one, other in zip(ours, theirs, strict=True)
        ]
        if not all(near):
            raise RuntimeError(f"{job}: losses {ours} of fastdist, {theirs} of torch")


class Crew(Couple):
    """Four processes of one library; a job is set up when its losses are first requested."""

    def __init__(self, library: str) -> None:
        super().__init__(library, __name__, WORLD_SIZE)

    def losses(self, job: str) -> list[float]:
        """Set up a job, do its first steps, and return their losses."""
        found: list[float] = self.ask("losses", job)
        return found


def _live(library: str, rank: int, connection: Connection) -> None:
    if library == "fastdist":
        importlib.import_module("fastdist").install_as_torch()
    else:
        warn_nobody()
    importlib.import_module("torch").set_num_threads(1)
    steps = importlib.import_module("bench.distributed.job_steps")
    # torch uses a thread per waiting call: a pipeline of 16 parts would use all 16 default threads.
    options = steps.rpc.TensorPipeRpcBackendOptions(num_worker_threads=128)
    steps.rpc.init_rpc(f"w{rank}", rank=rank, world_size=WORLD_SIZE, rpc_backend_options=options)
    if rank == 0:
        serve_steps(Steps(steps.MAKERS).do, connection)
    else:
        stand_by()
    steps.rpc.shutdown()


class Steps:
    """Runs steps of jobs, and sets up each job at its first step."""

    def __init__(self, makers: Mapping[str, Callable[[], Callable[[], float]]]) -> None:
        self.names = list(makers)
        self._makers = makers
        self._made: dict[str, Callable[[], float]] = {}

    def do(self, job: str, number: int) -> list[float]:
        """Do `number` steps of a job, and return their losses."""
        if job not in self._made:
            self._made[job] = self._makers[job]()
        step = self._made[job]
        return [step() for _ in range(number)]


def serve_steps(do: Callable[[str, int], list[float]], connection: Connection) -> None:
    """Run requested steps of jobs, and send their losses or seconds, until "end" is requested."""
    while True:
        what, asked = connection.recv()
        if what == "end":
            return
        if what == "losses":
            connection.send(do(asked, CHECKED))
            continue
        began = time.perf_counter()
        do(what, asked)
        connection.send(time.perf_counter() - began)


if __name__ == "__main__":
    # Imported by name, because other workers cannot look up functions in __main__.
    live = importlib.import_module("bench.distributed.jobs")._live
    live(sys.argv[1], int(sys.argv[2]), Connection(int(sys.argv[3])))
