"""The shared parts of the data-parallel jobs: the group, shared parameters, and the comparison."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence

import fastdist.distributed as dist
from fastdist import Tensor
from fastdist.distributed.nn.functional import all_reduce
from fastdist.examples.demo import Demo
from fastdist.examples.job import rank_in_job

WORKERS = ("first", "second")
# The limit on differences: in float64, derivatives equal those of one process except for rounding.
CLOSE = 1e-12


def shared(parameters: Iterable[Tensor]) -> list[Tensor]:
    """Return the mean over the ranks of each parameter; the parameters are equal on all ranks.

    The values stay the same, but derivatives of any order through the mean become means over the
    ranks. So the loss of this rank's data gets the derivatives of the mean loss over all data.
    """
    return [all_reduce(parameter, dist.ReduceOp.AVG) for parameter in parameters]


def mine(data: Tensor) -> Tensor:
    """Return this rank's part of `data`; each rank has the complete data."""
    return data.chunk(dist.get_world_size())[dist.get_rank()]


def furthest(ours: Iterable[Tensor], of_one_process: Iterable[Tensor]) -> float:
    """Return the largest difference of paired tensors, relative to the second's largest number."""
    pairs = zip(ours, of_one_process, strict=True)
    return max(((a - b).abs().max() / b.abs().max()).item() for a, b in pairs)


def take_part(
    name: str,
    about: str | None,
    arguments: Sequence[str] | None,
    steps: int,
    train: Callable[[Demo], int],
) -> int:
    """Join the group, train with it, and leave. Return the exit status."""
    spec = sys.modules["__main__"].__spec__
    program = "" if spec is None else spec.name
    rank = rank_in_job(WORKERS, f"-m {program}", f"demo {name}")
    demo = Demo(name, about, arguments, steps=steps, is_shown=rank == 0)
    dist.init_process_group("zmq")
    try:
        return train(demo)
    finally:
        dist.destroy_process_group()
