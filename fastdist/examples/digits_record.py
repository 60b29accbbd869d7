"""The display of the digits job while it trains, and its report at the end."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

from fastdist import Tensor, nn
from fastdist.distributed import rpc
from fastdist.examples.digits_check import Comparison
from fastdist.examples.digits_measures import (
    remember_memory,
    report,
    stopwatch,
    watch_module,
    watch_optimizer,
    watch_part,
)
from fastdist.examples.digits_settings import Settings
from fastdist.examples.digits_summary import Training, broken_promises, summary, write_pictures
from fastdist.examples.progress import Progress

# The memory of each worker is recorded after these steps; it should not grow between them.
_MEMORY_STEPS = (200, 1000)


class Record:
    """Shows the training's progress on the trainer, and collects the other workers'
    measurements.
    """

    def __init__(self, settings: Settings, others: Sequence[str], examples: int) -> None:
        self.first_gradients: list[Tensor] = []
        self._settings = settings
        self._others = others
        self._training = Training()
        self._progress = Progress(settings.epochs, examples)
        self._epoch = self._seen = 0
        self._loss = 0.0
        self._start = time.perf_counter()
        self._step_start = 0.0

    def watch(
        self,
        parts: Sequence[rpc.RRef[Any]],
        optimizers: Sequence[rpc.RRef[Any]],
        loss_function: nn.Module,
    ) -> None:
        """Start the measurements on each worker."""
        for part in parts:
            rpc.rpc_sync(part.owner(), watch_part, args=(part,))
        for optimizer in optimizers:
            rpc.rpc_sync(optimizer.owner(), watch_optimizer, args=(optimizer,))
        watch_module(loss_function)
        self._start = time.perf_counter()

    @property
    def steps(self) -> int:
        """The number of finished steps."""
        return self._training.steps

    def begin_epoch(self, epoch: int) -> None:
        """Start to count the examples of an epoch; the first epoch is 1."""
        self._epoch, self._seen = epoch, 0
        self._progress.start_epoch()
        self._step_start = stopwatch().now()

    def end_step(self, loss: float, examples: int) -> None:
        """Record a step, and show the progress of the epoch."""
        now = stopwatch().now()
        # In the time line, the trainer's own computation is drawn on top of this range.
        stopwatch().add("waiting", self._step_start, now)
        self._step_start = now
        self._seen += examples
        self._loss = loss
        self._training.losses.append((self.steps + 1, loss))
        self._progress.step(self._epoch, self._seen, loss)
        if self.steps in _MEMORY_STEPS:
            remember_memory()
            for worker in self._others:
                rpc.rpc_sync(worker, remember_memory)

    def end_epoch(self, test_loss: float, test_accuracy: float) -> None:
        """Print a line about the epoch."""
        self._training.test_losses.append((self.steps, test_loss))
        self._training.accuracy = test_accuracy
        self._training.elapsed_s = time.perf_counter() - self._start
        self._progress.end_epoch(self._epoch, self._loss, test_accuracy)

    def first_epoch_loss(self) -> float:
        """Return the loss of the held-out digits after the first epoch."""
        return self._training.test_losses[0][1]

    def finish(self, comparison: Comparison) -> list[str]:
        """Print the summary, draw the pictures, and return a sentence for each failed check."""
        reports = [report(), *(rpc.rpc_sync(worker, report) for worker in self._others)]
        print(summary(self._training, comparison, reports))
        try:
            pictures = write_pictures(self._settings.folder, self._training, reports)
        except OSError as error:
            raise SystemExit(
                f"the pictures could not be written to {str(self._settings.folder)!r}: "
                f"{error.strerror}; name another folder with --out"
            ) from error
        print("pictures".ljust(19) + ", ".join(os.path.relpath(path) for path in pictures))
        return broken_promises(
            self._training, comparison, may_be_worse=not self._settings.is_as_shipped
        )
