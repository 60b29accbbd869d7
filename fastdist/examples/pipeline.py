"""A convolutional network as a pipeline: two stages on two workers, with micro-batches.

    fastdist run -n 3 -m fastdist.examples.pipeline

    master                 worker1                worker2
    1st images ----------> Conv, ReLU, pool
    2nd images ----------> Conv, ReLU, pool ----> Conv, ReLU, Linear
    3rd images ...                                ...
    logits <------------------------------------- logits

The master sends all parts of a batch without waiting, and waits only for the last stage. The second
stage fetches the output of the first stage directly, through an RRef. Meanwhile the first stage
works on the next part. In float64 the losses equal those of one process that trains on whole
batches, except for rounding.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import fastdist as torch
import fastdist.distributed.autograd as dist_autograd
import fastdist.nn.functional as F
from fastdist import Tensor, nn, optim
from fastdist.distributed import rpc
from fastdist.distributed.optim import DistributedOptimizer
from fastdist.examples.demo import Demo
from fastdist.examples.digits_data import CLASSES, load_digits
from fastdist.examples.job import endless, take_part

NAME, STEPS = "pipeline", 60
WORKERS = ("master", "worker1", "worker2")
BATCH_SIZE, PARTS, RATE = 64, 4, 0.1


def make_layers() -> nn.Sequential:
    """Return the whole network; the first three layers are the first stage."""
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(16 * 4 * 4, CLASSES),
    ).double()


class Stage(nn.Module):
    """Some of the layers, on one worker; its input is an RRef to the previous stage's output."""

    def __init__(self, layers: nn.Sequential) -> None:
        super().__init__()
        self.layers = layers

    def forward(self, reference: rpc.RRef[Tensor]) -> Tensor:
        """Fetch the value of an RRef, and return the output of the layers."""
        out: Tensor = self.layers(reference.to_here())
        return out

    def parameter_rrefs(self) -> list[rpc.RRef[Tensor]]:
        """Return references to the parameters, which stay on this worker."""
        return [rpc.RRef(parameter) for parameter in self.parameters()]


class Pipeline:
    """The network on the master, which calls its stages on the other workers."""

    def __init__(self, layers: nn.Sequential) -> None:
        self.first = rpc.remote("worker1", Stage, (layers[:3],))
        self.second = rpc.remote("worker2", Stage, (layers[3:],))

    def forward(self, images: Tensor) -> Tensor:
        """Return the logits of a batch, computed in parts."""
        logits = []
        for part in images.chunk(PARTS):
            between = self.first.remote().forward(rpc.RRef(part))
            logits.append(self.second.rpc_async().forward(between))
        return torch.cat([each.wait() for each in logits])

    def parameter_rrefs(self) -> list[rpc.RRef[Tensor]]:
        """Return references to the parameters of both stages."""
        stages = (self.first, self.second)
        return [rref for stage in stages for rref in stage.rpc_sync().parameter_rrefs()]


def train(demo: Demo) -> int:
    """Train the pipeline from the master, which calls the other workers."""
    digits = load_digits(demo.seed)
    alone = make_layers()
    model = Pipeline(alone)
    optimizer = DistributedOptimizer(optim.SGD, model.parameter_rrefs(), lr=RATE, momentum=0.9)
    one_process = optim.SGD(alone.parameters(), lr=RATE, momentum=0.9)
    furthest = 0.0
    for _, (pixels, labels) in zip(demo.steps(), endless(digits.training, BATCH_SIZE)):
        images = pixels.view(-1, 1, 8, 8)
        with dist_autograd.context() as context_id:
            loss = F.cross_entropy(model.forward(images), labels)
            dist_autograd.backward(context_id, [loss])
            optimizer.step(context_id)

        one_process.zero_grad()
        expected = F.cross_entropy(alone(images), labels)
        expected.backward()
        one_process.step()
        furthest = max(furthest, abs(loss.item() - expected.item()))
        demo.record(loss=loss)
    return demo.finish("furthest loss from one process", furthest, at_most=1e-9)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run this process's rank of the job."""
    return take_part(WORKERS, Demo(NAME, __doc__, arguments, steps=STEPS), train)


if __name__ == "__main__":
    sys.exit(main())
