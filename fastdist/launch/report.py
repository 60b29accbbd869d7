"""What a run says at its end: which worker failed, how, and its traceback, once."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass

from fastdist.launch.screen import Screen
from fastdist.launch.worker_process import WorkerProcess


@dataclass(frozen=True)
class Failure:
    """The first thing that went wrong: a sentence, the exit status, and a worker's last words.

    `was_asked` where nothing went wrong but somebody ended the job. No sentence: end without words.
    `is_from_afar` where another node told of it, `is_hearsay` where it knew from yet another.
    """

    sentence: str
    exit_status: int
    text: tuple[bytes, ...] = ()
    was_asked: bool = False
    rank: int | None = None
    is_from_afar: bool = False
    is_hearsay: bool = False


def write_report(
    screen: Screen, prog: str, failure: Failure | None, also_failed: Sequence[Failure]
) -> None:
    """Say how the job ended; what the first failed worker wrote last stands at the bottom.

    Who failed after that gets a line, or, where it ended as the first did, a place in one.
    """
    if failure is None or not failure.sentence:
        return
    same: list[str] = []
    for other in also_failed:
        last = last_line(other.text)
        if other.rank is not None and last and last == last_line(failure.text):
            same.append(str(other.rank))
            continue
        sentence = other.sentence if other.rank is None else f"rank {other.rank} failed"
        how = b": " + last if last else b""
        screen.print(f"after that, {sentence}".encode() + how, to_stderr=True)
    if same:
        ranks = "rank " if len(same) == 1 else "ranks "
        together = f"after that, {ranks}{', '.join(same)} failed in the same way"
        screen.print(together.encode(), to_stderr=True)
    for line in (f"{prog}: {failure.sentence}".encode(), *failure.text):
        screen.print(line, to_stderr=True)


def worker_failure(worker: WorkerProcess, text: Sequence[bytes], where: str) -> Failure:
    """Describe how a worker ended; `where` is empty or names its node."""
    assert worker.status is not None
    return Failure(
        sentence=f"rank {worker.rank} {_how(worker.status)} (pid {worker.pid}{where})",
        exit_status=exit_status_of(worker.status),
        text=tuple(text),
        rank=worker.rank,
    )


def exit_status_of(status: int) -> int:
    """Return a shell's exit status for subprocess's: 128 + n where signal n ended the process."""
    return status if status >= 0 else 128 - status


def _how(status: int) -> str:
    if status >= 0:
        return f"failed with exit status {status}"
    name = signal_name(-status)
    if status == -signal.SIGKILL:
        return f"was killed by {name}; if nobody did it, the machine may be out of memory"
    return f"was killed by {name}"


def signal_name(number: int) -> str:
    """Return SIGTERM for 15, and the bare number for one without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def last_line(text: Sequence[bytes]) -> bytes:
    """Return the line of a traceback that says what happened: the last that is not empty."""
    return next((line for line in reversed(text) if line.strip()), b"")
