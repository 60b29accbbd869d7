"""The loop of one node: its workers, the launcher's signals, and the deadlines of an end."""

from __future__ import annotations

import errno
import math
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from selectors import EVENT_READ, BaseSelector

from fastdist.launch.failure_text import lost_ranks
from fastdist.launch.guard import Guard
from fastdist.launch.output import Output
from fastdist.launch.report import Failure, first_of, signal_name, worker_failure
from fastdist.launch.screen import Screen
from fastdist.launch.signals import SignalPipe, is_ending, is_passed_on, suspend_process
from fastdist.launch.stopped import StoppedWorkers
from fastdist.launch.worker_process import WorkerProcess

# Ctrl-C ends everything within 2 s, a failed worker within 5 s: grace, kill and report fit in.
INTERRUPT_GRACE_S = 1.0
FAILURE_GRACE_S = 3.0
# Who has begun a traceback when another has failed may end with it, before it is asked to.
SPARED_S = 2.0
_HURRIED_OUTPUT_S = 0.5


# Starts a worker that has been started so often before.
Start = Callable[[int], WorkerProcess]


def _do_nothing(*said: object) -> None:
    """Be told, and leave it at that."""


@dataclass(frozen=True)
class Comebacks:
    """What becomes of a worker that fails while the others live on: by default they end as well."""

    # How often each worker may come back.
    most: int = 0
    # Told of each failure, how often the worker has been back then, and how often it may be.
    tell: Callable[[Failure, int, int], None] = _do_nothing
    counts: dict[int, int] = field(default_factory=dict)


class Job:
    """This node's workers in one round, from their start to their end.

    `failure` is the first thing that went wrong, None while nothing did; `interrupt` says by which
    signal somebody ended the job; `is_last` whether what happened leaves no sense to another round.
    Thread  the launcher's main thread alone
    """

    def __init__(
        self,
        screen: Screen,
        selector: BaseSelector,
        signals: SignalPipe,
        guard: Guard,
        where: str = "",
        has_ended_well: Callable[[int], object] = _do_nothing,
        comebacks: Comebacks | None = None,
    ) -> None:
        self.failure: Failure | None = None
        self.also_failed: list[Failure] = []
        self.interrupt: Failure | None = None
        self.is_last = False
        self._screen = screen
        self._selector = selector
        self._signals = signals
        self._guard = guard
        self._where = where
        # Told the rank of each worker that ends without having failed.
        self._has_ended_well = has_ended_well
        self._comebacks = Comebacks() if comebacks is None else comebacks
        self._output = Output(screen, selector)
        self._starts: Mapping[int, Start] = {}
        self._workers: list[WorkerProcess] = []
        self._stopped = StoppedWorkers()
        # Why a worker was killed that lay stopped, by its pid.
        self._given_up: dict[int, Failure] = {}
        # When the others were asked to end; who had begun a traceback by then was not.
        self._ends_since = math.inf
        self._kill_at: float | None = None
        self._ask_rest_at: float | None = None
        self._asked: set[int] = set()
        self._is_asked_twice = False
        self._has_lost_output = False
        selector.register(signals.fileno(), EVENT_READ, self._take_signals)

    def close(self) -> None:
        """Leave the signals to another round."""
        self._selector.unregister(self._signals.fileno())

    def run(self, starts: Mapping[int, Start], number: int = 0) -> None:
        """Start the workers by rank, and show what they write until the last has ended."""
        self._starts = starts
        # A signal may have come since the round before.
        self._take_signals()
        for rank in starts:
            if self.failure is not None:
                break
            worker = self._start(rank, number)
            if worker is not None:
                self._workers.append(worker)
        # One may have ended before its SIGCHLD had a number to be looked up by.
        self._take_exits()
        self.turn_until(lambda: all(worker.status is not None for worker in self._workers))
        self.settle()

    def _start(self, rank: int, restart_count: int) -> WorkerProcess | None:
        try:
            worker = self._starts[rank](restart_count)
        except OSError as error:
            # No process, no memory or no descriptor is left: those that run must end again.
            sentence = f"rank {rank} could not be started: {error}"
            self.stop_because(Failure(sentence, 1, is_final=True))
            return None
        self._guard.add(worker.pid)
        self._output.add(worker)
        return worker

    def turn_until(self, is_over: Callable[[], bool], timeout_s: float | None = None) -> None:
        """Serve pipes, signals, exits and deadlines until is_over; it is asked after each turn."""
        until = math.inf if timeout_s is None else time.monotonic() + timeout_s
        while not is_over() and time.monotonic() < until:
            self._output.keep_pace()
            deadline = min(until, self._next_deadline())
            left = None if deadline == math.inf else max(0.0, deadline - time.monotonic())
            for key, _ in self._selector.select(left):
                key.data()
            self._meet_deadlines()
            if self._screen.error is not None and not self._has_lost_output:
                self._has_lost_output = True
                self.stop(_lost_output(self._screen.error), signal.SIGTERM, INTERRUPT_GRACE_S)

    def stop(self, failure: Failure, number: signal.Signals, grace_s: float) -> None:
        """Ask all workers to end, and kill after grace_s who has not; the first call decides."""
        self.is_last = self.is_last or failure.is_final or failure.was_asked
        if self.failure is not None:
            if not (self.failure.was_asked or failure.was_asked or failure.is_hearsay):
                self.also_failed.append(failure)
            return
        self.failure = failure
        self._kill_at = time.monotonic() + grace_s
        if failure.was_asked:
            self._end(self._workers, number)
            return
        self._output.read_errors()
        self._ends_since = time.monotonic()
        self._ask_rest_at = self._ends_since + SPARED_S
        self._end([w for w in self._workers if not self._output.holds_text_of(w)], number)

    def _end(self, workers: Sequence[WorkerProcess], number: signal.Signals) -> None:
        for worker in workers:
            if worker.status is None:
                self._asked.add(worker.rank)
                worker.send(number)

    def stop_because(self, failure: Failure) -> None:
        """Stop as for a worker that failed."""
        self.stop(failure, signal.SIGTERM, FAILURE_GRACE_S)

    def finish(self) -> None:
        """Write out what is still to be shown: all of it, but only for a moment after a Ctrl-C."""
        until = None
        if self.interrupt is not None or (self.failure is not None and self.failure.was_asked):
            until = time.monotonic() + _HURRIED_OUTPUT_S
        while not self._screen.is_empty and not self._is_asked_twice:
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                return
            for key, _ in self._selector.select(left):
                key.data()

    def _take_signals(self) -> None:
        for number in self._signals.take():
            if number is signal.SIGTSTP:
                self._suspend()
            if is_passed_on(number):
                for worker in self._workers:
                    worker.pass_on(number)
            if not is_ending(number):
                continue
            if self.failure is not None:
                # No more grace.
                self._kill_at = time.monotonic()
            # No more waiting for a slow reader.
            self._is_asked_twice = self.interrupt is not None
            failure = Failure(f"ended by {signal_name(number)}", 128 + number, was_asked=True)
            self.interrupt = self.interrupt or failure
            self.stop(failure, number, INTERRUPT_GRACE_S)
        self._take_exits()

    def _suspend(self) -> None:
        # A Ctrl-Z reaches the launcher alone: its workers would run on, and miss their store.
        for worker in self._workers:
            worker.send(signal.SIGSTOP)
        suspend_process()
        for worker in self._workers:
            worker.send(signal.SIGCONT)

    def _take_exits(self) -> None:
        ended = [worker for worker in self._workers if worker.has_ended()]
        # Who was killed did not fail because of another; who raised may have.
        for worker in sorted(ended, key=lambda worker: worker.status or 0):
            self._guard.discard(worker.pid)
            text, began = self._output.last_words(worker)
            was_ended = worker.rank in self._asked
            if worker.status == 0:
                self._has_ended_well(worker.rank)
                continue
            if was_ended and not text:
                # It was ended like the others, which says nothing.
                continue
            failure = self._given_up.pop(worker.pid, None) or worker_failure(
                worker, text, self._where, began=began, was_ended=was_ended
            )
            if self.failure is not None or not self._starts_again(worker, failure):
                self.stop_because(failure)

    def _starts_again(self, lost: WorkerProcess, failure: Failure) -> bool:
        """Start a lost worker anew while the others live on; return False where it may not be."""
        if not self._may_come_back(lost):
            return False
        counts = self._comebacks.counts
        counts[lost.rank] = count = counts.get(lost.rank, 0) + 1
        self._comebacks.tell(failure, count, self._comebacks.most)
        self._output.forget(lost)
        worker = self._start(lost.rank, count)
        if worker is not None:
            self._workers[self._workers.index(lost)] = worker
        return True

    def _may_come_back(self, worker: WorkerProcess) -> bool:
        return self._comebacks.counts.get(worker.rank, 0) < self._comebacks.most

    def _give_up(self, frozen: Failure) -> None:
        """Kill a worker that lies stopped where it may come back; else the job ends for it."""
        for worker in self._workers:
            if worker.rank == frozen.rank and self._may_come_back(worker):
                self._given_up[worker.pid] = frozen
                worker.send(signal.SIGKILL)
                return
        self.stop_because(frozen)

    def settle(self) -> None:
        """Find which failure was the first, now that all are known; the first to end may not be.

        Those of other nodes may be known later than those of this one: it is asked again then.
        """
        if self.failure is None or self.failure.was_asked:
            return
        failures = [self.failure, *self.also_failed]
        self.failure = first_of(failures, [worker.rank for worker in self._workers])
        self.also_failed = []
        for failure in failures:
            if failure is self.failure:
                continue
            outlived = failure.was_ended and failure.began <= self._ends_since
            if outlived and failure.rank is not None and not lost_ranks(failure.text):
                # It was spared, and went on after its traceback: it had caught that error.
                self._output.print_held(failure.rank, failure.text)
            else:
                self.also_failed.append(failure)

    def _next_deadline(self) -> float:
        if self.failure is not None:
            # Once the job ends, held text waits for its worker's end.
            return min(at for at in (self._ask_rest_at, self._kill_at, math.inf) if at is not None)
        release = self._output.next_release()
        look = self._stopped.next_look(self._workers)
        return look if release is None else min(look, release)

    def _meet_deadlines(self) -> None:
        now = time.monotonic()
        if self.failure is None:
            self._output.release_held(now)
            if now >= self._stopped.next_look(self._workers):
                frozen = self._stopped.look(self._workers, now)
                if frozen is not None:
                    self._give_up(frozen)
            return
        if self._ask_rest_at is not None and now >= self._ask_rest_at:
            self._ask_rest_at = None
            self._end([w for w in self._workers if w.rank not in self._asked], signal.SIGTERM)
        if self._kill_at is not None and now >= self._kill_at:
            self._kill_at = None
            self._end(self._workers, signal.SIGKILL)


def _lost_output(error: OSError) -> Failure:
    """Describe the end of a job whose output nobody takes any more."""
    if isinstance(error, BrokenPipeError) or error.errno == errno.EIO:
        # The reader (`| head`, a terminal) has gone: end as by SIGPIPE, without words.
        return Failure("", 128 + signal.SIGPIPE, was_asked=True)
    return Failure(f"the output could not be written: {error.strerror}", 1, is_final=True)
