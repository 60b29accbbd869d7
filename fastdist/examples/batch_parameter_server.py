"""A server waits for the gradients of three trainers, steps once, and then answers all of them.

    fastdist run -n 4 -m fastdist.examples.batch_parameter_server

    trainer1, trainer2, trainer3             server
    gradients of a third of a batch -------> waits for all, adds them up, steps
    parameters <---------------------------- answers all trainers

The server's method returns a Future immediately (async_execution), so no thread of the server waits
for trainers. In float64 the result equals that of one process with whole batches, except for
rounding.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from itertools import islice

import fastdist as torch
import fastdist.nn.functional as F
from fastdist import Tensor, nn, optim
from fastdist.distributed import rpc
from fastdist.examples.demo import Demo
from fastdist.examples.digits_data import CLASSES, PIXELS, load_digits
from fastdist.examples.job import endless, take_part
from fastdist.futures import Future

NAME, STEPS = "batch-parameter-server", 150
WORKERS = ("server", "trainer1", "trainer2", "trainer3")
TRAINERS = WORKERS[1:]
BATCH_SIZE, HIDDEN, RATE = 20 * len(TRAINERS), 64, 0.3
Tensors = list[Tensor]


def make_model() -> nn.Sequential:
    """Return a model that reads digits. Each trainer has one, into which it loads new weights."""
    layers = nn.Sequential(nn.Linear(PIXELS, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, CLASSES))
    return layers.double()


class Server:
    """Holds the parameters.

    Thread  `update` runs in several threads at a time, one for each call
    """

    def __init__(self, model: nn.Module) -> None:
        self.parameters = list(model.parameters())
        self._optimizer = optim.SGD(self.parameters, lr=RATE, momentum=0.5)
        # Guards the attributes below and the step. Answers are sent without holding the lock.
        self._lock = threading.Lock()
        self._came: dict[str, tuple[float, Tensors]] = {}
        self._updated: Future[Tensors] = Future()
        self.losses: list[float] = []

    @rpc.functions.async_execution
    def update(self, trainer: str, loss: float, gradients: Tensors) -> Future[Tensors]:
        """Take a trainer's gradients; return a Future of the updated parameters. The call of the
        last trainer completes this Future.
        """
        with self._lock:
            answer = self._updated
            self._came[trainer] = loss, gradients
            if len(self._came) < len(TRAINERS):
                return answer
            self._step()
            self._updated = Future()
        answer.set_result([parameter.detach().clone() for parameter in self.parameters])
        return answer

    def _step(self) -> None:
        # Add in the order of TRAINERS: in the order of arrival, sums would differ between runs.
        came = [self._came.pop(trainer) for trainer in TRAINERS]
        gradients = [sum(each) for each in zip(*(gradients for _, gradients in came))]
        self._optimizer.step_with(dict(zip(self.parameters, gradients)))
        self.losses.append(sum(loss for loss, _ in came))


def train(server: rpc.RRef[Server], parameters: Tensors, seed: int, steps: int) -> None:
    """Run a trainer: send gradients of a third of each batch, and load the new parameters."""
    model = make_model()
    number = TRAINERS.index(rpc.get_worker_info().name)
    for images, labels in islice(endless(load_digits(seed).training, BATCH_SIZE), steps):
        fill(model, parameters)
        mine, labelled = (whole.chunk(len(TRAINERS))[number] for whole in (images, labels))
        loss = F.cross_entropy(model(mine), labelled, reduction="sum") / BATCH_SIZE
        gradients = torch.autograd.grad(loss, list(model.parameters()))
        name = TRAINERS[number]
        parameters = server.rpc_sync().update(name, loss.item(), list(gradients))


@torch.no_grad()
def fill(model: nn.Module, parameters: Tensors) -> None:
    """Write parameters into a model."""
    for ours, theirs in zip(model.parameters(), parameters, strict=True):
        ours.copy_(theirs)


def lead(demo: Demo) -> int:
    """Run the server: start the trainers, then compare with one process."""
    model, alone = make_model(), make_model()
    alone.load_state_dict(model.state_dict())
    server = Server(model)
    first = [parameter.detach().clone() for parameter in server.parameters]
    asked = (rpc.RRef(server), first, demo.seed, demo.last_step)
    trainers = [rpc.rpc_async(trainer, train, asked, timeout=0) for trainer in TRAINERS]
    torch.futures.wait_all(trainers)

    one_process = optim.SGD(alone.parameters(), lr=RATE, momentum=0.5)
    data = endless(load_digits(demo.seed).training, BATCH_SIZE)
    furthest = 0.0
    for step, (images, labels) in zip(demo.steps(), data):
        one_process.zero_grad()
        expected = F.cross_entropy(alone(images), labels)
        expected.backward()
        one_process.step()
        loss = server.losses[step - 1]
        furthest = max(furthest, abs(loss - expected.item()))
        demo.record(loss=loss)
    return demo.finish("furthest loss from one process", furthest, at_most=1e-9)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run this process's rank of the job."""
    return take_part(WORKERS, Demo(NAME, __doc__, arguments, steps=STEPS), lead)


if __name__ == "__main__":
    sys.exit(main())
