"""Steps of training of two processes with DistributedDataParallel, beside PyTorch's over gloo."""

from __future__ import annotations

import importlib
import logging
import os
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from multiprocessing.connection import Connection
from typing import Any

from ..harness import Case, Row, chosen, compare, peer_torch
from .jobs import CHECKED, require_same
from .rpc import Couple, warn_nobody

Step = Callable[[], float]
NEEDS = ("zmq",)
TARGET = 0.9  # the ratio that each model is to reach
WORLD_SIZE = 2
# model: steps a sample
MODELS = {"MLP 784-256-256-10": 20, "GPT, 4 layers of 128": 2, "ResNet-18": 1}


def run(rounds: int) -> list[Row]:
    """Compare a step of each model, once its first losses are found to be the same."""
    models = [model for model in MODELS if chosen() in model]
    names = ["fastdist", *(["torch"] * (peer_torch() is not None))]
    with ExitStack() as ends:
        sides = []
        for name in names:
            sides.append(Couple(name, __name__, WORLD_SIZE))
            ends.callback(sides[-1].end)
        for model in models:
            require_same(model, [side.ask("losses", model) for side in sides])
        return compare(
            [
                Case(
                    model,
                    *(side.stopwatch(model) for side in sides),
                    target=TARGET,
                    number=MODELS[model],
                )
                for model in models
            ],
            rounds,
        )


def _live(library: str, rank: int, connection: Connection) -> None:
    if library == "fastdist":
        # Both processes are stopped while the peer's work; then the second waits for the first.
        os.environ["FASTDIST_FROZEN_S"] = "3600"
        logging.disable(logging.WARNING)
        importlib.import_module("fastdist").install_as_torch()
    else:
        warn_nobody()
    torch = importlib.import_module("torch")
    torch.set_num_threads(1)
    steps: Any = importlib.import_module("bench.distributed.ddp_steps")
    steps.dist.init_process_group("gloo", rank=rank, world_size=WORLD_SIZE)
    work = Together(steps.MAKERS, steps.dist, torch.zeros(2, dtype=torch.int64))
    if rank > 0:
        work.follow()
    else:
        _serve(work, connection)
    steps.dist.destroy_process_group()


class Together:
    """Steps that all ranks do as rank 0 says: it broadcasts which model, and how many steps."""

    def __init__(self, makers: Mapping[str, Callable[[], Step]], dist: Any, told: Any) -> None:
        self._makers, self._dist, self._told = makers, dist, told
        self._names = list(makers)
        self._made: dict[str, Step] = {}

    def lead(self, model: str, number: int) -> list[float]:
        """Let all ranks do steps of a model; return the losses of this one."""
        self._tell(self._names.index(model), number)
        return self._do(model, number)

    def end(self) -> None:
        """Let the others end."""
        self._tell(-1, 0)

    def follow(self) -> None:
        """Do what rank 0 says, until the end."""
        while True:
            place, number = self._tell(0, 0)
            if place < 0:
                return
            self._do(self._names[place], number)

    def _tell(self, place: int, number: int) -> list[int]:
        self._told[0], self._told[1] = place, number
        self._dist.broadcast(self._told, 0)
        told: list[int] = self._told.tolist()
        return told

    def _do(self, model: str, number: int) -> list[float]:
        if model not in self._made:
            self._made[model] = self._makers[model]()
        step = self._made[model]
        return [step() for _ in range(number)]


def _serve(work: Together, connection: Connection) -> None:
    while True:
        what, asked = connection.recv()
        if what == "end":
            return work.end()
        if what == "losses":
            connection.send(work.lead(asked, CHECKED))
            continue
        began = time.perf_counter()
        work.lead(what, asked)
        connection.send(time.perf_counter() - began)


if __name__ == "__main__":
    live = importlib.import_module("bench.distributed.ddp")._live
    live(sys.argv[1], int(sys.argv[2]), Connection(int(sys.argv[3])))
