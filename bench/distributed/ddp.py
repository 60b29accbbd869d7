"""Data-parallel steps of two processes, and bytes of optimizer state, against PyTorch over gloo."""

from __future__ import annotations

import importlib
import logging
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from multiprocessing.connection import Connection
from typing import Any

from ..harness import Case, Row, chosen, compare, peer_torch
from .jobs import Steps, require_same, serve_steps
from .rpc import Couple, warn_nobody

NEEDS = ("zmq",)
TARGET = 0.9  # the ratio that each model is to reach
WORLD_SIZE = 2
# model: steps per sample
MODELS = {"MLP 784-256-256-10": 20, "GPT, 4 layers of 128": 2, "ResNet-18": 1}
OPTIMIZERS = ("Adam", "ZeRO-1 of Adam")


def run(rounds: int) -> list[Row]:
    """Compare a step of each model, and the optimizer's bytes on the rank with the largest state.

    Before a model is timed, the first losses of both libraries must be equal.
    """
    models = [model for model in MODELS if chosen() in model]
    names = ["fastdist", *(["torch"] * (peer_torch() is not None))]
    with ExitStack() as ends:
        sides = []
        for name in names:
            sides.append(Couple(name, __name__, WORLD_SIZE))
            ends.callback(sides[-1].end)
        for model in models:
            require_same(model, [side.ask("losses", model) for side in sides])
        rows = compare(
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
        kept = [f"{model}: {which}" for model in MODELS for which in OPTIMIZERS]
        return rows + compare([_bytes_of(one, sides) for one in kept if chosen() in one], 2)


def _bytes_of(what: str, sides: Sequence[Couple]) -> Case:
    """Return the case of an optimizer's state, in bytes, which each side counts once."""
    ours, *theirs = (side.ask("losses", what)[-1] for side in sides)
    watches = [lambda turns, found=found: found for found in (ours, *theirs)]
    return Case(what, *watches, target=1.0, number=1, unit="bytes")


def _live(library: str, rank: int, connection: Connection) -> None:
    if library == "fastdist":
        # So long that rank 1 is not declared lost while it waits until the peer's turns end.
        os.environ["FASTDIST_FROZEN_S"] = "3600"
        logging.disable(logging.WARNING)
        importlib.import_module("fastdist").install_as_torch()
    else:
        warn_nobody()
    torch = importlib.import_module("torch")
    torch.set_num_threads(1)
    steps: Any = importlib.import_module("bench.distributed.ddp_steps")
    steps.dist.init_process_group("gloo", rank=rank, world_size=WORLD_SIZE)
    work = Together(Steps(steps.MAKERS), steps.dist, torch.zeros(2, dtype=torch.int64))
    if rank > 0:
        work.follow()
    else:
        serve_steps(work.lead, connection)
        work.end()
    steps.dist.destroy_process_group()


class Together:
    """Steps that all ranks run together: rank 0 broadcasts the job and the number of steps."""

    def __init__(self, steps: Steps, dist: Any, told: Any) -> None:
        self._steps, self._dist, self._told = steps, dist, told

    def lead(self, job: str, number: int) -> list[float]:
        """Make all ranks run steps of a job; return this rank's losses."""
        self._tell(self._steps.names.index(job), number)
        return self._steps.do(job, number)

    def end(self) -> None:
        """Make the other ranks leave `follow`."""
        self._tell(-1, 0)

    def follow(self) -> None:
        """Run the steps that rank 0 requests, until rank 0 calls `end`."""
        while True:
            place, number = self._tell(0, 0)
            if place < 0:
                return
            self._steps.do(self._steps.names[place], number)

    def _tell(self, place: int, number: int) -> list[int]:
        self._told[0], self._told[1] = place, number
        self._dist.broadcast(self._told, 0)
        told: list[int] = self._told.tolist()
        return told


if __name__ == "__main__":
    live = importlib.import_module("bench.distributed.ddp")._live
    live(sys.argv[1], int(sys.argv[2]), Connection(int(sys.argv[3])))
