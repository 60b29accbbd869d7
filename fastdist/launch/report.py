"""The report at the end of a run: the first failure of a worker, and the worker's traceback."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from fastdist.distributed.constants import PREEMPTED_EXIT_STATUS
from fastdist.launch.failure_text import (
    lost_ranks,
    users_line,
    what_was_raised,
    without_own_threads,
    without_shown_line,
)
from fastdist.launch.screen import Screen
from fastdist.launch.worker_process import WorkerProcess

# Peers may report the end of a worker without a traceback this long before the launcher.
NOTICED_S = 0.5


@dataclass(frozen=True)
class Failure:
    """A failure: a sentence, the exit status, and the last output of the worker.

    Nothing is printed for an empty sentence.
    `was_asked`: there was no failure, a user ended the job; `asked_by` is the signal.
    `is_from_afar`: another node reported it; `source` names the node and the round.
    `is_hearsay`: that node had received the report from a third node.
    `was_ended`: the launcher had sent this worker a signal to end; else it might have continued.
    `is_final`: a restart would not help, because a node or the output is lost.
    """

    sentence: str
    exit_status: int
    text: tuple[bytes, ...] = ()
    was_asked: bool = False
    asked_by: int = 0
    source: str = ""
    rank: int | None = None
    is_from_afar: bool = False
    is_hearsay: bool = False
    was_ended: bool = False
    is_final: bool = False
    began: float = field(default_factory=time.monotonic, compare=False)

    @property
    def wants_requeue(self) -> bool:
        """Whether a worker exited with the status that requests a later start of the job."""
        return self.exit_status == PREEMPTED_EXIT_STATUS and not self.was_asked

    @property
    def may_end_well(self) -> bool:
        """Whether a scheduler's signal ended the job; workers that exit with 0 agreed to this."""
        return self.asked_by in (signal.SIGTERM, signal.SIGHUP)


def write_report(
    screen: Screen,
    prog: str,
    failure: Failure | None,
    also_failed: Sequence[Failure],
    log_folder: str | None = None,
) -> None:
    """Print how the job ended: a line for each error of later failures, then the first failure.

    The first failure is shown as a whole, and last: users look at the end of the output.
    """
    if failure is None or not failure.sentence:
        return
    text, num_threads = without_own_threads(failure.text)
    left_out = [f"the other threads ({num_threads}) of fastdist"] if num_threads else []
    first = what_was_raised(text)
    if any(len(other.text) > 1 and what_was_raised(other.text) != first for other in also_failed):
        left_out.append("the tracebacks of later failures")
    lines = [f"{prog}: later, {line}" for line in _later_failures(failure, also_failed)]
    if left_out:
        what = " and ".join(left_out)
        kept = f"{what} are in {log_folder}" if log_folder else f"--log-dir FOLDER keeps {what}"
        lines.append(f"{prog}: {kept}")
    for line in (*lines, f"{prog}: {failure.sentence}"):
        screen.print(os.fsencode(line), to_stderr=True)
    for shown in text:
        screen.print(without_shown_line(shown), to_stderr=True)


def _later_failures(first: Failure, later: Sequence[Failure]) -> list[str]:
    """Return a line for each error: the ranks that raised it, and a source line of one failure.

    A failure without a rank or an error gets a separate line.
    """
    lines: list[str] = []
    together: dict[bytes, list[Failure]] = {}
    for other in later:
        raised = what_was_raised(other.text)
        if other.rank is not None and raised:
            together.setdefault(raised, []).append(other)
        else:
            lines.append(other.sentence)
    for raised, failures in together.items():
        who = f"{_named_ranks(one.rank or 0 for one in failures)} failed"
        if raised == what_was_raised(first.text):
            lines.append(f"{who} in the same way")
            continue
        place = users_line(failures[0].text)
        at = f" (at {os.fsdecode(place)})" if place else ""
        lines.append(f"{who}: {os.fsdecode(raised)}{at}")
    return lines


def _named_ranks(ranks: Iterable[int]) -> str:
    """Return text such as `rank 3`, or `5 ranks (0, 2-5)`."""
    numbers = sorted(ranks)
    if len(numbers) == 1:
        return f"rank {numbers[0]}"
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    parts = [f"{run[0]}-{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs]
    return f"{len(numbers)} ranks ({', '.join(parts)})"


def first_of(failures: Sequence[Failure], local_ranks: Collection[int]) -> Failure:
    """Return the failure that may have caused the others.

    Failures of workers that the launcher had signalled come after other failures: their traceback
    may belong to an error that the worker had caught. Failures of workers that only lost a failed
    worker come last. Each class is ordered by the start of the failures.
    """
    others_told = any(failure.rank is None for failure in failures)
    failed = {failure.rank for failure in failures}

    def place(failure: Failure) -> tuple[int, float]:
        lost = lost_ranks(failure.text) - {failure.rank}
        # Failures on other nodes have no rank here.
        is_effect = any(
            rank in failed or (others_told and rank not in local_ranks) for rank in lost
        )
        return 2 if is_effect else int(failure.was_ended), failure.began

    return min(failures, key=place)


def worker_failure(
    worker: WorkerProcess,
    text: Sequence[bytes],
    where: str,
    *,
    began: float | None = None,
    was_ended: bool = False,
) -> Failure:
    """Return the failure of a worker that ended; `where` names its node, or is empty."""
    assert worker.status is not None
    # The launcher itself sent the signal.
    is_by_signal = was_ended and worker.status < 0
    how = "failed" if is_by_signal else _how(worker.status)
    wants_requeue = worker.status == PREEMPTED_EXIT_STATUS
    return Failure(
        sentence=f"rank {worker.rank} {how} (pid {worker.pid}{where})",
        exit_status=1 if is_by_signal else exit_status_of(worker.status),
        is_final=wants_requeue,
        text=tuple(text),
        rank=worker.rank,
        was_ended=was_ended,
        began=time.monotonic() - NOTICED_S if began is None else began,
    )


def exit_status_of(status: int) -> int:
    """Return a shell's exit status for subprocess's status: 128 + n if signal n ended the
    process.
    """
    return status if status >= 0 else 128 - status


def _how(status: int) -> str:
    if status == PREEMPTED_EXIT_STATUS:
        return f"has saved its state and asks for a later start by exit status {status}"
    if status >= 0:
        return f"failed with exit status {status}"
    name = signal_name(-status)
    if status == -signal.SIGKILL:
        return f"was killed by {name}; if nobody did it, the machine may be out of memory"
    return f"was killed by {name}"


def signal_name(number: int) -> str:
    """Return a name such as SIGTERM for 15, or a text with the number if there is no name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
