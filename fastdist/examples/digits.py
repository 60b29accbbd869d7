"""The job of `fastdist demo`: a perceptron split over two workers learns to read digits.

    fastdist run -n 3 -m fastdist.examples.digits

Rank 0 trains. The layers of its model live on the other two workers as RRefs: a batch goes forward
by RPC, and the gradients come back the way it went, over ZeroMQ.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

import fastdist
import fastdist.distributed.autograd as dist_autograd
from fastdist import Tensor, optim
from fastdist.distributed import rpc
from fastdist.distributed.optim import DistributedOptimizer
from fastdist.examples import numpy_mlp
from fastdist.examples.digits_data import CLASSES, PIXELS, Digits, batches, load_digits
from fastdist.examples.digits_part import (
    Part,
    TimedSGD,
    as_tensors,
    build_model,
    remember_memory,
    report,
    stopwatch,
)
from fastdist.examples.digits_settings import EPOCHS, Settings, parse_settings
from fastdist.examples.digits_summary import (
    Comparison,
    Training,
    broken_promises,
    summary,
    write_pictures,
)
from fastdist.examples.progress import Progress
from fastdist.nn import functional

WORKERS = ("trainer", "worker1", "worker2")
SIZES = (PIXELS, 64, 64, CLASSES)
_AT_ONCE = 32
# The first two layers live on worker1, the last on worker2.
_SPLIT = 2
# Between these steps no worker may grow.
_MEMORY_STEPS = (200, 1000)

Array = NDArray[np.float64]
Labels = NDArray[np.int64]


def main(arguments: Sequence[str] | None = None) -> None:
    """Take part in the job as the rank that the launcher gave.

    Raises  SystemExit with a sentence if something promised did not hold
    """
    settings = parse_settings(arguments)
    rank = _rank()
    rpc.init_rpc(WORKERS[rank], rank=rank, world_size=len(WORKERS))
    broken = train(settings) if rank == 0 else []
    # Workers wait here and serve the trainer's calls until it has come, too.
    rpc.shutdown()
    if broken:
        raise SystemExit("; ".join(broken))


class SplitModel:
    """The perceptron whose layers are elsewhere, and the optimiser of their parameters."""

    def __init__(self, layers: Sequence[numpy_mlp.Layer], lr: float) -> None:
        tensors = as_tensors(layers)
        self._parts = [
            rpc.remote(WORKERS[1], Part, args=(tensors[:_SPLIT], True)),
            rpc.remote(WORKERS[2], Part, args=(tensors[_SPLIT:], False)),
        ]
        rrefs = [rref for part in self._parts for rref in part.rpc_sync().parameter_rrefs()]
        self._optimizer = DistributedOptimizer(TimedSGD, rrefs, lr=lr)
        self.first_gradients: list[Array] = []

    def forward(self, x: Tensor) -> Tensor:
        """Send a batch through the layers, one worker after the other."""
        for part in self._parts:
            with stopwatch().measure("waiting"):
                x = part.rpc_sync().forward(x)
        return x

    def step(self, images: Array, labels: Labels) -> float:
        """Do one step on a batch and return its loss."""
        watch = stopwatch()
        with dist_autograd.context() as context_id:
            logits = self.forward(fastdist.tensor(images))
            with watch.measure("forward"):
                loss = functional.cross_entropy(logits, fastdist.tensor(labels))
            start = watch.now()
            # Called when the trainer's own part of the backward pass is done.
            logits.register_hook(lambda g: watch.add("backward", start, watch.now()))
            with watch.measure("waiting"):
                dist_autograd.backward(context_id, [loss])
            if not self.first_gradients:
                self.first_gradients = self._gradients(context_id)
            with watch.measure("waiting"):
                self._optimizer.step(context_id)
        return float(loss.item())

    def predict(self, images: Array) -> Tensor:
        """Return the logits; no worker records anything."""
        return in_batches(self._predict_batch, images)

    def _predict_batch(self, x: Tensor) -> Tensor:
        for part in self._parts:
            x = part.rpc_sync().predict(x)
        return x

    def _gradients(self, context_id: int) -> list[Array]:
        tensors = [g for part in self._parts for g in part.rpc_sync().gradients(context_id)]
        return [g.numpy() for g in tensors]


def in_batches(model: Callable[[Tensor], Tensor], images: Array) -> Tensor:
    """Return model's answers to all images, asked for as many at a time as a step trains on.

    So nothing here is large enough for a compiled kernel, whose first compilation would take longer
    than the whole training.
    """
    parts = [images[i : i + _AT_ONCE] for i in range(0, len(images), _AT_ONCE)]
    logits: Tensor = fastdist.cat([model(fastdist.tensor(part)) for part in parts])
    return logits


def train(settings: Settings) -> list[str]:
    """Train, compare with one process and with NumPy, tell how it went; return what was broken."""
    digits = load_digits(settings.seed)
    layers = numpy_mlp.make_layers(SIZES, settings.seed)
    model = SplitModel(layers, settings.lr)
    training = Training()
    progress = Progress(settings.epochs, len(digits.train_labels))
    start = time.perf_counter()
    for epoch in range(1, settings.epochs + 1):
        _train_epoch(model, digits, settings, epoch, training, progress)
    training.elapsed_s = time.perf_counter() - start
    comparison = _compare(model, training, digits, layers, settings)
    reports = [report(), *(rpc.rpc_sync(worker, report) for worker in WORKERS[1:])]
    print(summary(training, comparison, reports))
    pictures = write_pictures(settings.folder, training, reports)
    print("pictures".ljust(22) + ", ".join(os.path.relpath(path) for path in pictures))
    return broken_promises(training, comparison, is_shortened=settings.epochs < EPOCHS)


def _train_epoch(
    model: SplitModel,
    digits: Digits,
    settings: Settings,
    epoch: int,
    training: Training,
    progress: Progress,
) -> None:
    progress.start_epoch()
    seen = 0
    for rows in batches(len(digits.train_labels), settings.batch_size, epoch):
        loss = model.step(digits.train_images[rows], digits.train_labels[rows])
        seen += len(rows)
        training.losses.append((training.steps + 1, loss))
        progress.step(epoch, seen, loss)
        if training.steps in _MEMORY_STEPS:
            remember_memory()
            for worker in WORKERS[1:]:
                rpc.rpc_sync(worker, remember_memory)
    logits = model.predict(digits.test_images)
    test_loss = float(functional.cross_entropy(logits, fastdist.tensor(digits.test_labels)).item())
    training.test_losses.append((training.steps, test_loss))
    training.accuracy = numpy_mlp.accuracy(logits.numpy(), digits.test_labels)
    progress.end_epoch(epoch, loss, training.accuracy)


def _compare(
    model: SplitModel,
    training: Training,
    digits: Digits,
    layers: Sequence[numpy_mlp.Layer],
    settings: Settings,
) -> Comparison:
    """Train the same model for one epoch in this process alone, and put both side by side."""
    alone = build_model(as_tensors(layers), ends_in_relu=False)
    optimizer = optim.SGD(alone.parameters(), lr=settings.lr)
    first_gradients: list[Array] = []
    numpy_gradients: list[Array] = []
    for rows in batches(len(digits.train_labels), settings.batch_size, seed=1):
        images, labels = digits.train_images[rows], digits.train_labels[rows]
        optimizer.zero_grad()
        functional.cross_entropy(alone(fastdist.tensor(images)), fastdist.tensor(labels)).backward()
        if not first_gradients:
            first_gradients = [
                p.grad.numpy().copy() for p in alone.parameters() if p.grad is not None
            ]
            _, by_layer = numpy_mlp.loss_and_gradients(layers, images, labels)
            numpy_gradients = [g for layer in by_layer for g in layer]
        optimizer.step()
    with fastdist.no_grad():
        logits = in_batches(alone, digits.test_images)
        loss = functional.cross_entropy(logits, fastdist.tensor(digits.test_labels))
    return Comparison(
        gradients=model.first_gradients,
        one_process_gradients=first_gradients,
        numpy_gradients=numpy_gradients,
        loss=training.test_losses[0][1],
        one_process_loss=float(loss.item()),
    )


def _rank() -> int:
    rank, world_size = os.environ.get("RANK"), os.environ.get("WORLD_SIZE")
    if rank is None or world_size != str(len(WORKERS)):
        raise SystemExit(
            f"this job needs {len(WORKERS)} workers, got WORLD_SIZE={world_size!r}; start it with "
            f"`fastdist run -n {len(WORKERS)} -m fastdist.examples.digits`, or `fastdist demo`"
        )
    return int(rank)


if __name__ == "__main__":
    main()
