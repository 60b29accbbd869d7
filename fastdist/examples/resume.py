"""A job of three processes that can be killed at any moment, and resumes with the same result.

    fastdist run -n 3 -m fastdist.examples.resume

The trainer, rank 0, learns to read digits with a model whose layers are on two other workers.
Every few steps the job saves the state that the next step depends on: the layers and Adam's state
for each layer, on the worker of the layer; the random state of each worker, for dropout; and the
position in the data. The training goes on while a checkpoint is written. Kill any process, or the
launcher, with -9, and start the job again. The job's last line is a checksum over all bits of the
model and of every loss. The line is the same as in a run without the kill.

Begin to read at `train`.
"""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import fastdist
import fastdist.distributed.autograd as dist_autograd
from fastdist import Tensor, nn, optim
from fastdist.data import TensorDataset
from fastdist.distributed import checkpoint, rpc
from fastdist.distributed.optim import DistributedOptimizer
from fastdist.examples.digits_data import CLASSES, PIXELS, batches, load_digits
from fastdist.examples.job import expect_to_wait, rank_in_job
from fastdist.futures import Future
from fastdist.launch.command_parser import CommandParser

NAME = "resume"
WORKERS = ("trainer", "worker1", "worker2")
_HIDDEN = 32


def train(settings: argparse.Namespace) -> str:
    """Train from the newest checkpoint, or from the start; return a checksum of the run."""
    model = SplitModel(settings.seed)
    optimizer = DistributedOptimizer(optim.Adam, model.parameter_rrefs(), lr=0.01)
    loss_function = nn.CrossEntropyLoss()
    losses = fastdist.zeros(settings.steps, dtype=fastdist.float64)
    # A checkpoint stores a list of RRefs as one model. So another job can load it with the layers
    # on other workers.
    state: dict[str, Any] = {
        "model": model.parts,
        "optimizer": optimizer,
        "random": {name: rpc.remote(name, checkpoint.RngState) for name in WORKERS},
        "losses": losses,
        "step": 0,
    }
    newest = checkpoint.latest(settings.folder)
    if newest is not None:
        checkpoint.load(state, checkpoint_id=newest)
        print(f"goes on at step {state['step']}", flush=True)

    data = load_digits(settings.seed).training
    saving: Future[checkpoint.Metadata] | None = None
    for images, labels in islice(endless(data), state["step"], settings.steps):
        with dist_autograd.context() as context_id:
            loss = loss_function(model.forward(images), labels)
            dist_autograd.backward(context_id, [loss])
            optimizer.step(context_id)
        losses[state["step"]] = loss.detach()
        state["step"] += 1
        print(f"step {state['step']} loss {loss.item():.4f}", flush=True)
        if state["step"] % settings.every == 0:
            # async_save waits for the previous checkpoint if that one is still being written.
            folder = Path(settings.folder, f"step-{state['step']}")
            saving = checkpoint.async_save(state, checkpoint_id=folder, keep=2)
    if saving is not None:
        saving.wait()
    return fingerprint([losses, *model.parameters()])


def endless(data: TensorDataset) -> Iterator[tuple[Tensor, ...]]:
    """Yield batches forever. Their order depends only on the epoch, so the number of batches
    already read determines the position in the data.
    """
    epoch = 0
    while True:
        yield from batches(data, batch_size=32, seed=epoch)
        epoch += 1


def fingerprint(tensors: Sequence[Tensor]) -> str:
    """Return a checksum over all bits of tensors."""
    whole = hashlib.sha256(b"".join(tensor.detach().numpy().tobytes() for tensor in tensors))
    return whole.hexdigest()[:16]


class SplitModel:
    """The model on the trainer: two parts, each on another worker."""

    def __init__(self, seed: int) -> None:
        self.parts = [
            rpc.remote("worker1", Part, args=("first", PIXELS, _HIDDEN, seed)),
            rpc.remote("worker2", Part, args=("second", _HIDDEN, CLASSES, seed)),
        ]

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits of a batch."""
        for part in self.parts:
            x = part.rpc_sync().forward(x)
        return x

    def parameter_rrefs(self) -> list[rpc.RRef[Tensor]]:
        """Return references to the parameters of all parts."""
        return [rref for part in self.parts for rref in part.rpc_sync().parameter_rrefs()]

    def parameters(self) -> list[Tensor]:
        """Return copies of the parameters of all parts."""
        return [value for part in self.parts for value in part.rpc_sync().state_dict().values()]


class Part(nn.Module):
    """Some of the layers, under their names in the model, on one worker."""

    def __init__(self, name: str, inputs: int, outputs: int, seed: int) -> None:
        super().__init__()
        fastdist.manual_seed(seed)
        layers = nn.Sequential(nn.Dropout(0.2), nn.Linear(inputs, outputs).double())
        self.add_module(name, layers)

    def forward(self, x: Tensor) -> Tensor:
        """Return the output of these layers for a batch."""
        for layers in self.children():
            x = layers(x).tanh()
        return x

    def parameter_rrefs(self) -> list[rpc.RRef[Tensor]]:
        """Return references to the parameters, which stay on this worker."""
        return [rpc.RRef(parameter) for parameter in self.parameters()]


def parse_settings(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parse arguments; on a mistake print the usage and exit with status 2."""
    prog = "fastdist demo resume"
    parser = CommandParser(
        prog,
        f"{prog} --steps 100",
        description=(__doc__ or "").partition("\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add, folder = parser.add_argument, Path("fastdist-demo", "resume")
    add("--steps", type=int, default=300, metavar="N", help="how many steps to train in all")
    add("--every", type=int, default=20, metavar="N", help="how many of them between checkpoints")
    add("--seed", type=int, default=0, metavar="N", help="seed of all random numbers")
    add("--folder", type=Path, default=folder, metavar="FOLDER", help="for checkpoints")
    given = parser.read(arguments)
    if given.steps < 1 or given.every < 1:
        parser.refuse(f"--steps and --every must be 1 or more, got {given.steps}, {given.every}")
    return given


def main(arguments: Sequence[str] | None = None) -> None:
    """Run this process's rank of the job."""
    settings = parse_settings(arguments)
    rank = rank_in_job(WORKERS, "-m fastdist.examples.resume", "demo resume")
    rpc.init_rpc(WORKERS[rank], rank=rank, world_size=len(WORKERS))
    if rank == 0:
        print(f"result: after {settings.steps} steps {train(settings)}", flush=True)
    else:
        expect_to_wait()
    rpc.shutdown()


if __name__ == "__main__":
    main()
