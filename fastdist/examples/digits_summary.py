"""What the digits job tells at its end, and whether it kept its promises."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastdist.examples.line_plot import Curve, line_plot
from fastdist.examples.time_line import Range, time_line

LEAST_ACCURACY = 0.95
MOST_GRADIENT_DIFFERENCE = 1e-10
MOST_LOSS_DIFFERENCE = 1e-8
KINDS = ("forward", "backward", "optimiser", "waiting")
_SHOWN_S = 0.025
_COMPUTING = ("forward", "backward", "optimiser")

Arrays = Sequence[NDArray[np.float64]]


class Report(NamedTuple):
    """What one worker tells at the end; sizes in bytes, times in seconds."""

    worker: str
    totals: dict[str, float]
    ranges: list[Range]
    calls: int
    answered: int
    sent_bytes: int
    received_bytes: int
    resident_bytes: int
    grown_bytes: int | None  # None: the run was too short to tell


@dataclass
class Training:
    """The course of the training: (step, loss) as it went, and held-out losses by epoch."""

    losses: list[tuple[float, float]] = field(default_factory=list)
    test_losses: list[tuple[float, float]] = field(default_factory=list)
    accuracy: float = 0.0
    elapsed_s: float = 0.0

    @property
    def steps(self) -> int:
        """How many steps have been done."""
        return len(self.losses)


@dataclass(frozen=True)
class Comparison:
    """The distributed model beside the same model in one process, and beside NumPy."""

    gradients: Arrays
    one_process_gradients: Arrays
    numpy_gradients: Arrays
    loss: float
    one_process_loss: float

    @property
    def from_one_process(self) -> float:
        """The largest difference of the first step's gradients from one process's."""
        return largest_difference(self.gradients, self.one_process_gradients)

    @property
    def from_numpy(self) -> float:
        """The largest difference of the first step's gradients from NumPy's."""
        return largest_difference(self.gradients, self.numpy_gradients)

    @property
    def of_loss(self) -> float:
        """How far apart the losses are after the first epoch."""
        return abs(self.loss - self.one_process_loss)


def largest_difference(some: Arrays, others: Arrays) -> float:
    """Return the largest difference of two lists of equally shaped arrays."""
    return max(float(np.abs(x - y).max()) for x, y in zip(some, others, strict=True))


def broken_promises(
    training: Training, comparison: Comparison, *, is_shortened: bool = False
) -> list[str]:
    """Return what should have held and did not, a sentence each; a shortened run may know less."""
    broken = []
    if training.accuracy < LEAST_ACCURACY and not is_shortened:
        broken.append(f"test accuracy is {training.accuracy:.1%}, under {LEAST_ACCURACY:.0%}")
    for other, difference in (
        ("one process", comparison.from_one_process),
        ("NumPy", comparison.from_numpy),
    ):
        # Written so that a NaN breaks the promise as well.
        if not difference <= MOST_GRADIENT_DIFFERENCE:
            broken.append(
                f"gradients differ from {other} by {difference:.1e}, more than "
                f"{MOST_GRADIENT_DIFFERENCE:.0e}"
            )
    if not comparison.of_loss <= MOST_LOSS_DIFFERENCE:
        broken.append(
            f"the loss after the first epoch differs from one process by {comparison.of_loss:.1e}, "
            f"more than {MOST_LOSS_DIFFERENCE:.0e}"
        )
    return broken


def summary(training: Training, comparison: Comparison, reports: Sequence[Report]) -> str:
    """Return the report, a line or a few for each thing told."""
    return "\n".join(f"{name:<22}{line}" for name, line in _rows(training, comparison, reports))


def _rows(
    training: Training, comparison: Comparison, reports: Sequence[Report]
) -> list[tuple[str, str]]:
    gradients = (
        f"within {comparison.from_one_process:.1e} of one process, "
        f"{comparison.from_numpy:.1e} of NumPy"
    )
    loss = (
        f"{comparison.loss:.10f}, within {comparison.of_loss:.1e} of one process (held-out fifth)"
    )
    rows = [
        ("test accuracy", f"{training.accuracy:.1%} of the held-out fifth"),
        ("first gradients", gradients),
        ("loss after epoch 1", loss),
        ("time", _where_the_time_went(training, reports)),
    ]
    rows += [(report.worker, _traffic(report)) for report in reports]
    return rows


def _where_the_time_went(training: Training, reports: Sequence[Report]) -> str:
    parts = {kind: sum(report.totals.get(kind, 0.0) for report in reports) for kind in _COMPUTING}
    # Workers step at the same time, each its own parameters: the slower one counts.
    parts["optimiser"] = max(report.totals.get("optimiser", 0.0) for report in reports)
    parts["waiting"] = max(0.0, training.elapsed_s - sum(parts.values()))
    shares = ", ".join(f"{kind} {seconds:.1f}" for kind, seconds in parts.items())
    return f"{training.elapsed_s:.1f} s for {training.steps} steps: {shares}"


def _traffic(report: Report) -> str:
    grown = (
        ""
        if report.grown_bytes is None
        else f", {report.grown_bytes / 1e6:+.1f} from step 200 to 1000"
    )
    return (
        f"{report.calls:,} calls made, {report.answered:,} answered; {report.sent_bytes / 1e6:.1f} "
        f"MB sent, {report.received_bytes / 1e6:.1f} MB received; {report.resident_bytes / 1e6:.0f}"
        f" MB of memory{grown}"
    )


def write_pictures(folder: Path, training: Training, reports: Sequence[Report]) -> list[Path]:
    """Draw the loss curve and the time line of the last steps into folder, made if missing."""
    folder.mkdir(parents=True, exist_ok=True)
    loss = line_plot(
        [Curve("training", training.losses), Curve("held out", training.test_losses)],
        title="Handwritten digits: loss",
        x_label="step",
        y_label="cross-entropy",
    )
    ranges = [entry for report in reports for entry in report.ranges]
    shown_from = max(entry.end_s for entry in reports[0].ranges) - _SHOWN_S
    latest = [
        entry._replace(start_s=max(entry.start_s, shown_from))
        for entry in ranges
        if entry.end_s > shown_from
    ]
    times = time_line(latest, kinds=KINDS, title="The last steps, worker by worker")
    written = []
    for name, picture in (("loss.svg", loss), ("timeline.svg", times)):
        written.append(folder / name)
        written[-1].write_text(picture, encoding="utf-8")
    return written
