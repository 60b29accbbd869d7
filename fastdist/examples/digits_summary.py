"""The final report of the digits job, and a check that results are within their limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fastdist.examples.digits_check import Comparison
from fastdist.examples.digits_measures import Report

LEAST_ACCURACY = 0.95
MOST_GRADIENT_DIFFERENCE = 1e-10
MOST_LOSS_DIFFERENCE = 1e-8
KINDS = ("forward", "backward", "optimiser", "waiting")
_SHOWN_STEPS = 3
_COMPUTING = ("forward", "backward", "optimiser")


@dataclass
class Training:
    """The progress of the training: (step, loss) pairs, and held-out losses by epoch."""

    losses: list[tuple[float, float]] = field(default_factory=list)
    test_losses: list[tuple[float, float]] = field(default_factory=list)
    accuracy: float = 0.0
    elapsed_s: float = 0.0

    @property
    def steps(self) -> int:
        """The number of finished steps."""
        return len(self.losses)


def broken_promises(
    training: Training, comparison: Comparison, *, may_be_worse: bool = False
) -> list[str]:
    """Return a sentence for each result that is outside of its limit.

    `may_be_worse` is for settings other than the defaults: the accuracy is not checked.
    """
    broken = []
    if training.accuracy < LEAST_ACCURACY and not may_be_worse:
        broken.append(f"test accuracy is {training.accuracy:.1%}, under {LEAST_ACCURACY:.0%}")
    for other, difference in (
        ("one process", comparison.from_one_process),
        ("NumPy", comparison.from_numpy),
    ):
        # With `not ... <=`, NaN is outside of the limit too.
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
    """Return the report: a line or two for each result, and a table of the workers."""
    rows = [*_what_came_out(training, comparison), *_where_the_time_went(training, reports)]
    grown = [report.grown_bytes for report in reports if report.grown_bytes is not None]
    if len(grown) == len(reports):
        changes = ", ".join(f"{change / 1e6:+.1f}" for change in grown)
        rows.append(("memory growth", f"{changes} MB from step 200 to step 1,000"))
    lines = [f"{name:<19}{line}" for name, line in rows]
    return "\n".join([*lines, *_table(reports)])


def _what_came_out(training: Training, comparison: Comparison) -> list[tuple[str, str]]:
    gradients = (
        f"within {comparison.from_one_process:.1e} of one process, "
        f"{comparison.from_numpy:.1e} of NumPy"
    )
    loss = f"{comparison.loss:.10f} held out, within {comparison.of_loss:.1e} of one process"
    return [
        ("test accuracy", f"{training.accuracy:.1%} of the held-out fifth"),
        ("first gradients", gradients),
        ("loss after epoch 1", loss),
    ]


def _where_the_time_went(training: Training, reports: Sequence[Report]) -> list[tuple[str, str]]:
    parts = {kind: sum(report.totals.get(kind, 0.0) for report in reports) for kind in _COMPUTING}
    # Workers run their optimisers in parallel, so the time of the slowest one counts.
    parts["optimiser"] = max(report.totals.get("optimiser", 0.0) for report in reports)
    waiting = max(0.0, training.elapsed_s - sum(parts.values()))
    forward, backward, optimiser = (f"{kind} {seconds:.1f}" for kind, seconds in parts.items())
    rows = [
        ("time", f"{training.elapsed_s:.1f} s for {training.steps} steps: {forward}, {backward},"),
        ("", f"{optimiser}, calls and waiting {waiting:.1f}"),
    ]
    if waiting > training.elapsed_s / 2:
        rows.append(("", "(messages take longer than layers this small)"))
    return rows


def _table(reports: Sequence[Report]) -> list[str]:
    lines = [
        f"{'':<8}{'seconds of':^26}{'calls':^16}{'MB':^15}memory",
        f"{'worker':<8}forward backward optimiser   made answered  sent received    MB",
    ]
    for report in reports:
        forward, backward, optimiser = (report.totals.get(kind, 0.0) for kind in _COMPUTING)
        lines.append(
            f"{report.worker:<8}{forward:>7.2f}{backward:>9.2f}{optimiser:>10.2f}"
            f"{report.calls:>7,}{report.answered:>9,}"
            f"{report.sent_bytes / 1e6:>6.1f}{report.received_bytes / 1e6:>9.1f}"
            f"{report.resident_bytes / 1e6:>6.0f}"
        )
    return [line.rstrip() for line in lines]


def write_pictures(folder: Path, training: Training, reports: Sequence[Report]) -> list[Path]:
    """Draw the loss curve and the time line of the last steps into folder, which is created."""
    # Imported here, so that workers that draw no picture do not load these modules.
    from fastdist.examples.line_plot import Curve, line_plot
    from fastdist.examples.time_line import time_line

    folder.mkdir(parents=True, exist_ok=True)
    loss = line_plot(
        [Curve("training", training.losses), Curve("held out", training.test_losses)],
        title="Handwritten digits: loss",
        x_label="step",
        y_label="cross-entropy",
    )
    ranges = [entry for report in reports for entry in report.ranges]
    # The trainer has one "waiting" range for each step; the ranges of its computation are drawn
    # on top of that range.
    steps = [entry.start_s for entry in reports[0].ranges if entry.kind == "waiting"]
    latest = [entry for entry in ranges if entry.start_s >= steps[-_SHOWN_STEPS:][0]]
    times = time_line(latest, kinds=KINDS, title="The last steps, worker by worker")
    written = []
    for name, picture in (("loss.svg", loss), ("timeline.svg", times)):
        written.append(folder / name)
        written[-1].write_text(picture, encoding="utf-8")
    return written
