"""A server holds the model; two trainers call it, and gradients flow back to it.

    fastdist run -n 3 -m fastdist.examples.parameter_server

    trainer1, trainer2                       server
    half of the images each ---------------> Reader, its parameters and their optimiser
    logits <-------------------------------- logits
    loss and its backward pass ------------> gradients, which stay on the server

Each trainer has a RemoteModule that calls the same module. In float64 the losses equal those of one
process that trains on whole batches, except for rounding.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import fastdist as torch
import fastdist.distributed.autograd as dist_autograd
import fastdist.nn.functional as F
from fastdist import Tensor, nn, optim
from fastdist.distributed import rpc
from fastdist.distributed.nn import RemoteModule
from fastdist.distributed.optim import DistributedLRScheduler, DistributedOptimizer
from fastdist.examples.demo import Demo
from fastdist.examples.digits_data import CLASSES, PIXELS, load_digits
from fastdist.examples.job import endless, take_part
from fastdist.optim.lr_scheduler import CosineAnnealingLR

NAME, STEPS = "parameter-server", 150
WORKERS = ("trainer1", "trainer2", "server")
BATCH_SIZE, HIDDEN, RATE = 64, 64, 0.3


class Reader(nn.Module):
    """A network that reads digits."""

    def __init__(self) -> None:
        super().__init__()
        layers = nn.Sequential(nn.Linear(PIXELS, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, CLASSES))
        self.layers = layers.double()

    def forward(self, images: Tensor) -> Tensor:
        """Return the logits of images."""
        logits: Tensor = self.layers(images)
        return logits


def loss_of(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    """Return the summed loss of some images; a trainer runs it with a local or a remote model."""
    return F.cross_entropy(model(images), labels, reduction="sum")


def train(demo: Demo) -> int:
    """Lead the job as trainer1: distribute halves of batches, and run the server's optimiser."""
    digits = load_digits(demo.seed)
    alone = Reader()
    model = RemoteModule("server/cpu", Reader)
    model.get_module_rref().rpc_sync().load_state_dict(alone.state_dict())
    optimizer = DistributedOptimizer(optim.SGD, model.remote_parameters(), lr=RATE, momentum=0.5)
    schedule = DistributedLRScheduler(CosineAnnealingLR, optimizer, T_max=demo.last_step)
    one_process = optim.SGD(alone.parameters(), lr=RATE, momentum=0.5)
    one_schedule = CosineAnnealingLR(one_process, T_max=demo.last_step)
    furthest = 0.0
    for _, (images, labels) in zip(demo.steps(), endless(digits.training, BATCH_SIZE)):
        mine, other = zip(images.chunk(2), labels.chunk(2))
        with dist_autograd.context() as context_id:
            theirs = rpc.rpc_async("trainer2", loss_of, (model, *other))
            loss = (loss_of(model, *mine) + theirs.wait()) / BATCH_SIZE
            dist_autograd.backward(context_id, [loss])
            optimizer.step(context_id)
        schedule.step()

        one_process.zero_grad()
        expected = loss_of(alone, images, labels) / BATCH_SIZE
        expected.backward()
        one_process.step()
        one_schedule.step()
        furthest = max(furthest, abs(loss.item() - expected.item()))
        demo.record(loss=loss)
    with torch.no_grad():
        images, labels = digits.held_out.tensors
        right = (model(images).argmax(1) == labels).double().mean().item()
    print(f"held-out digits read: {right:.1%}")
    return demo.finish("furthest loss from one process", furthest, at_most=1e-9)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run this process's rank of the job."""
    return take_part(WORKERS, Demo(NAME, __doc__, arguments, steps=STEPS), train)


if __name__ == "__main__":
    sys.exit(main())
