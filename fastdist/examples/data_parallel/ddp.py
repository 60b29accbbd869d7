"""Two ranks train one model on digits with DistributedDataParallel, each on half of every batch.

    fastdist run -n 2 -m fastdist.examples.data_parallel.ddp

The wrapper averages each gradient over the ranks while backward computes the next one. So
every rank takes the same step as one process with the whole batch.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Sequence

import fastdist as torch
import fastdist.nn.functional as F
from fastdist import Tensor
from fastdist.examples.data_parallel.group import CLOSE, WORKERS, furthest, mine, take_part
from fastdist.examples.data_parallel.penalty import make_model
from fastdist.examples.demo import Demo
from fastdist.examples.digits_data import load_digits
from fastdist.examples.job import endless
from fastdist.nn.parallel import DistributedDataParallel

NAME, STEPS = "data-parallel-ddp", 100
BATCH_SIZE, RATE = 64, 0.2
__all__ = ["NAME", "STEPS", "WORKERS", "main"]


def train(demo: Demo) -> int:
    """Train, and compare the weights after each step with those of one process."""
    alone = make_model()
    model = DistributedDataParallel(copy.deepcopy(alone))
    optimizers = [
        torch.optim.SGD(one.parameters(), lr=RATE, momentum=0.5) for one in (model, alone)
    ]
    distance = 0.0
    for _, (images, labels) in zip(
        demo.steps(), endless(load_digits(demo.seed).training, BATCH_SIZE)
    ):
        losses: list[Tensor] = [
            F.cross_entropy(model(mine(images)), mine(labels)),
            F.cross_entropy(alone(images), labels),
        ]
        for optimizer, loss in zip(optimizers, losses, strict=True):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        distance = max(distance, furthest(model.parameters(), alone.parameters()))
        demo.record(loss=losses[1])
    return demo.finish("furthest weight from one process", distance, at_most=CLOSE)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run this process's rank of the job."""
    return take_part(NAME, __doc__, arguments, STEPS, train)


if __name__ == "__main__":
    sys.exit(main())
