"""The job of `fastdist demo`: a perceptron split over two workers learns to read digits.

    fastdist run -n 3 -m fastdist.examples.digits

Rank 0 trains. The layers of its model are on the two other workers:

    trainer                      worker1                    worker2
    images --------------------> Linear, ReLU
                                 Linear, ReLU
    hidden <-------------------- hidden
    hidden -----------------------------------------------> Linear
    loss <------------------------------------------------- logits

A forward pass makes remote calls. The backward pass goes the same way back: the gradient of a value
flows to the worker that sent the value. Then the optimiser of each worker updates the layers there.

Start reading at `train`. digits_record.py has the display and the measurements. digits_check.py
shows that the gradients equal those of one process.
"""

from __future__ import annotations

from collections.abc import Sequence

import fastdist
import fastdist.distributed.autograd as dist_autograd
from fastdist import Tensor, nn, optim
from fastdist.distributed import rpc
from fastdist.distributed.optim import DistributedOptimizer
from fastdist.examples.digits_check import compare_with_one_process, evaluate
from fastdist.examples.digits_data import CLASSES, PIXELS, batches, load_digits
from fastdist.examples.digits_profile import write_time_line
from fastdist.examples.digits_record import Record
from fastdist.examples.digits_settings import Settings, make_folder, parse_settings
from fastdist.examples.job import expect_to_wait, rank_in_job

WORKERS = ("trainer", "worker1", "worker2")


def train(settings: Settings) -> list[str]:
    """Train the model; print results, and return a sentence for each failed check."""
    fastdist.manual_seed(settings.seed)
    digits = load_digits(settings.seed)
    layers = make_layers()
    model = SplitModel(layers)
    optimizer = DistributedOptimizer(optim.SGD, model.parameter_rrefs(), lr=settings.lr)
    loss_function = nn.CrossEntropyLoss()

    record = Record(settings, WORKERS[1:], len(digits.training))
    record.watch(model.parts, optimizer.remote_optimizers, loss_function)
    for epoch in range(1, settings.epochs + 1):
        record.begin_epoch(epoch)
        for images, labels in batches(digits.training, settings.batch_size, seed=epoch):
            with dist_autograd.context() as context_id:
                loss = loss_function(model.forward(images), labels)
                dist_autograd.backward(context_id, [loss])
                if not record.first_gradients:
                    record.first_gradients = model.gradients(context_id)
                optimizer.step(context_id)
            record.end_step(loss.item(), len(labels))
        record.end_epoch(*evaluate(model.predict, digits.held_out))

    comparison = compare_with_one_process(
        layers,
        batches(digits.training, settings.batch_size, seed=1),
        digits.held_out,
        lr=settings.lr,
        gradients=record.first_gradients,
        loss=record.first_epoch_loss(),
    )
    broken = record.finish(comparison)
    images, labels = next(iter(batches(digits.training, settings.batch_size, seed=1)))
    write_time_line(model.forward, loss_function, images, labels, settings.folder)
    return broken


def make_layers() -> nn.Sequential:
    """Return the whole model, in double precision, so that gradients can be compared exactly."""
    return nn.Sequential(
        nn.Linear(PIXELS, 64),
        nn.ReLU(),
        nn.Linear(64, 64),
        nn.ReLU(),
        nn.Linear(64, CLASSES),
    ).double()


class SplitModel:
    """The model as the trainer sees it: two parts, each on a separate worker."""

    def __init__(self, layers: nn.Sequential) -> None:
        # RPC sends copies of arguments, so the layers in `layers` are not changed.
        self.parts = [
            rpc.remote("worker1", Part, args=(layers[:4],)),
            rpc.remote("worker2", Part, args=(layers[4:],)),
        ]

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits of a batch."""
        for part in self.parts:
            x = part.rpc_sync().forward(x)
        return x

    def predict(self, x: Tensor) -> Tensor:
        """Return the logits of a batch, without recording on any worker."""
        for part in self.parts:
            x = part.rpc_sync().predict(x)
        return x

    def parameter_rrefs(self) -> list[rpc.RRef[Tensor]]:
        """Return references to the parameters of all parts."""
        return [rref for part in self.parts for rref in part.rpc_sync().parameter_rrefs()]

    def gradients(self, context_id: int) -> list[Tensor]:
        """Fetch the gradients of all parameters; without this call they stay on the workers."""
        return [g for part in self.parts for g in part.rpc_sync().gradients(context_id)]


class Part(nn.Module):
    """Some of the layers, on one worker; the trainer holds an RRef to it."""

    def __init__(self, layers: nn.Sequential) -> None:
        super().__init__()
        self.layers = layers

    def forward(self, x: Tensor) -> Tensor:
        """Return the output of these layers for a batch."""
        out: Tensor = self.layers(x)
        return out

    def predict(self, x: Tensor) -> Tensor:
        """Return the output without recording: the caller's no_grad does not apply to
        remote calls.
        """
        with fastdist.no_grad():
            return self.forward(x)

    def parameter_rrefs(self) -> list[rpc.RRef[Tensor]]:
        """Return references to the parameters, which stay on this worker."""
        return [rpc.RRef(parameter) for parameter in self.parameters()]

    def gradients(self, context_id: int) -> list[Tensor]:
        """Return the gradients that a distributed backward pass has accumulated on this worker."""
        gradients = dist_autograd.get_gradients(context_id)
        return [gradients[parameter] for parameter in self.parameters()]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run this process's rank of the job.

    Raises  SystemExit with a message if a result is outside of its limit
    """
    settings = parse_settings(arguments)
    rank = rank_in_job(WORKERS, "-m fastdist.examples.digits", "demo")
    if rank == 0:
        make_folder(settings.folder)
    rpc.init_rpc(WORKERS[rank], rank=rank, world_size=len(WORKERS))
    broken = train(settings) if rank == 0 else []
    if rank > 0:
        expect_to_wait()
    # The other workers call shutdown immediately; while they wait in it, they serve the calls of
    # the trainer.
    rpc.shutdown()
    if broken:
        raise SystemExit("; ".join(broken))


if __name__ == "__main__":
    main()
