"""The end of one node's workers: signals, notices about workers that still run, and SIGKILL."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from fastdist.distributed.store.wait_log import name_ranks
from fastdist.launch.report import signal_name
from fastdist.launch.worker_process import WorkerProcess

# Kubernetes and Slurm send SIGKILL 30 s after SIGTERM. The launcher still has to kill its workers,
# report, and remove the job's files before that.
SHUTDOWN_S = 25.0
# Extra time in which a worker that has used all of SHUTDOWN_S must leave its group and exit.
_EXIT_S = 1.0
CTRL_C_S = 5.0
# The time of the first notice, by which most jobs have ended. Later notices follow after longer
# pauses.
NOTICE_S = 1.0
_NEXT_NOTICE_S = 5.0
_LONGEST_PAUSE_S = 60.0
# A process that survives SIGKILL for this time hangs in the kernel (state D).
KILLED_S = 1.0


def grace_s(number: signal.Signals, given_s: float | None) -> float:
    """Return the seconds that workers get after a signal; given_s is --shutdown-timeout."""
    if given_s is not None:
        return given_s
    return CTRL_C_S if number is signal.SIGINT else SHUTDOWN_S + _EXIT_S


class Ending:
    """Signals workers, reports which workers still run, and kills them at a deadline.

    `say(line)` prints a line of the launcher.

    Thread  only the launcher's main thread
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        # When the workers were signalled, in time.monotonic().
        self.began = math.inf
        # The ranks to which the signal was sent.
        self.asked: set[int] = set()
        self._say = say
        self._workers: Sequence[WorkerProcess] = ()
        self._number = signal.SIGTERM
        self._because = ""
        self._ask_at: dict[int, float] = {}
        self._notice_at = self._kill_at = self._give_up_at = math.inf

    def begin(
        self,
        workers: Sequence[WorkerProcess],
        number: signal.Signals,
        grace_s: float,
        because: str,
        ask_after_s: Mapping[int, float],
    ) -> None:
        """Send the signal to all workers. `ask_after_s` maps some ranks to a delay of their signal.

        `workers` may grow afterwards: a new worker only gets SIGKILL, together with the others.
        """
        self.began = now = time.monotonic()
        self._workers, self._number, self._because = workers, number, because
        self._ask_at = {rank: now + after_s for rank, after_s in ask_after_s.items()}
        self._notice_at = now + NOTICE_S
        self._kill_at = now + grace_s
        self._ask(worker for worker in workers if worker.rank not in self._ask_at)

    def hurry(self) -> None:
        """End the workers' grace period now."""
        self._kill_at = min(self._kill_at, time.monotonic())

    def put_off(self, worker: WorkerProcess, after_s: float) -> None:
        """Delay a worker's signal until `after_s` seconds after `began`."""
        self._ask_at[worker.rank] = self.began + after_s

    def due(self, now: float) -> list[WorkerProcess]:
        """Return the running workers whose delayed signal is due."""
        return [one for one in self._running() if self._ask_at.get(one.rank, math.inf) <= now]

    def left_s(self) -> float:
        """Return the workers' remaining time in seconds."""
        return max(0.0, self._kill_at - time.monotonic())

    @property
    def is_over(self) -> bool:
        """Whether all workers have ended, or the remaining ones cannot be killed."""
        return not self._running() or time.monotonic() >= self._give_up_at

    def next_deadline(self) -> float:
        """Return the time of the next action of `meet_deadlines`; math.inf if there is none."""
        if self.is_over:
            return math.inf
        return min(self._notice_at, self._kill_at, self._give_up_at, *self._ask_at.values())

    def meet_deadlines(self, now: float) -> None:
        """Perform all actions that are due."""
        self._ask(self.due(now))
        running = self._running()
        if running and now >= self._kill_at:
            self._kill(running, now)
        elif running and now >= self._give_up_at:
            self._give_up_at = -math.inf  # reported only once
            self._say(f"{_names(running)} cannot be killed: a process hangs in the kernel")
        elif running and now >= self._notice_at:
            pause_s = min(max(_NEXT_NOTICE_S, now - self.began), _LONGEST_PAUSE_S)
            self._notice_at = now + pause_s
            because = f"{self._because}; " if self._because else ""
            left_s = max(1.0, self._kill_at - now)
            self._say(
                f"{because}waits for {_names(running)} to end, for {left_s:.0f} s more "
                "(--shutdown-timeout); Ctrl-C kills them at once"
            )

    def _running(self) -> list[WorkerProcess]:
        return [worker for worker in self._workers if worker.status is None]

    def _ask(self, workers: Iterable[WorkerProcess]) -> None:
        for worker in workers:
            self._ask_at.pop(worker.rank, None)
            if worker.status is None:
                self.asked.add(worker.rank)
                worker.ask_to_end(self._number)

    def _kill(self, running: Sequence[WorkerProcess], now: float) -> None:
        self._ask_at.clear()
        self._kill_at = self._notice_at = math.inf
        self._give_up_at = now + KILLED_S
        for worker in running:
            self.asked.add(worker.rank)
            worker.send(signal.SIGKILL)
        self._say(
            f"killed {_names(running)}, still running {now - self.began:.0f} s after "
            f"{signal_name(self._number)}"
        )


def _names(workers: Sequence[WorkerProcess]) -> str:
    ranks = sorted(worker.rank for worker in workers)
    pids = ", ".join(str(worker.pid) for worker in workers[:8])
    more = ", ..." if len(workers) > 8 else ""
    named = name_ranks(ranks, len(ranks)).rpartition(" of ")[0]
    return f"{named} (pid {pids}{more})"
