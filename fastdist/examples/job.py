"""The shared parts of the jobs of `fastdist demo NAME`: joining the job, and ending together."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, count

from fastdist import Tensor
from fastdist.core.errors import RendezvousError
from fastdist.data import TensorDataset
from fastdist.distributed import rpc
from fastdist.distributed.rendezvous import from_env
from fastdist.distributed.rpc.leaving import notices
from fastdist.examples.demo import Demo
from fastdist.examples.digits_data import batches


def take_part(workers: Sequence[str], demo: Demo, lead: Callable[[Demo], int]) -> int:
    """Run the worker of this process's rank, and return the exit status. The first worker runs
    `lead`. The other workers serve the first worker's calls until `lead` ends.
    """
    name = _program()
    rank = rank_in_job(workers, f"-m {name}", f"demo {demo.name}")
    rpc.init_rpc(workers[rank], rank=rank, world_size=len(workers))
    if rank > 0:
        expect_to_wait()
    status = lead(demo) if rank == 0 else 0
    # The other workers call shutdown immediately. They serve the leader's calls in shutdown until
    # the leader ends.
    rpc.shutdown()
    return status


def rank_in_job(workers: Sequence[str], program: str, command: str) -> int:
    """Return the index of this process's worker in `workers`.

    Raises  SystemExit with the right command if the job does not have one process per worker
    """
    how = f"start it with `fastdist run -n {len(workers)} {program}`, or `fastdist {command}`"
    try:
        place = from_env()
    except RendezvousError as error:
        raise SystemExit(f"this job needs {len(workers)} workers: {error}; {how}") from error
    if place.world_size != len(workers):
        raise SystemExit(f"this job needs {len(workers)} workers, got {place.world_size}; {how}")
    return place.rank


def expect_to_wait() -> None:
    """Switch off the messages about waiting in shutdown: the leader shows a progress bar."""
    notices.setLevel(logging.ERROR)


def endless(examples: TensorDataset, batch_size: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield whole batches forever, each epoch in a different order."""
    for images, labels in chain.from_iterable(
        batches(examples, batch_size, seed=epoch) for epoch in count()
    ):
        if len(labels) == batch_size:
            yield images, labels


def _program() -> str:
    """Return the command of this program, `python -m NAME`."""
    spec = sys.modules["__main__"].__spec__
    return "" if spec is None else spec.name
