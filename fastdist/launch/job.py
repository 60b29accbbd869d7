"""The loop of one node: its workers, the launcher's signals, and the deadlines of an end."""

from __future__ import annotations

import errno
import math
import signal
import time
from collections.abc import Callable, Mapping, Sequence
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


class Job:
    """This node's workers, from their start to their end.

    `failure` is the first thing that went wrong, None while nothing did.
    Thread  the launcher's main thread alone
    """

    def __init__(
        self,
        screen: Screen,
        selector: BaseSelector,
        signals: SignalPipe,
        guard: Guard,
        where: str = "",
        has_ended_well: Callable[[int], object] = lambda rank: None,
    ) -> None:
        self.failure: Failure | None = None
        self.also_failed: list[Failure] = []
        self._screen = screen
        self._selector = selector
        self._signals = signals
        self._guard = guard
        self._where = where
        # Told the rank of each worker that ends without having failed.
        self._has_ended_well = has_ended_well
        self._output = Output(screen, selector)
        self._workers: list[WorkerProcess] = []
        self._stopped = StoppedWorkers()
        # When the others were asked to end; who had begun a traceback by then was not.
        self._ends_since = math.inf
        self._kill_at: float | None = None
        self._ask_rest_at: float | None = None
        self._asked: set[int] = set()
        self._is_asked_twice = False
        self._has_lost_output = False
        selector.register(signals.fileno(), EVENT_READ, self._take_signals)

    def run(self, commands: Mapping[int, Callable[[], WorkerProcess]]) -> None:
        """Start the workers by rank, and show what they write until the last has ended."""
        for rank, start in commands.items():
            try:
                worker = start()
            except OSError as error:
                # No process, no memory or no descriptor is left: those that run must end again.
                self.stop_because(Failure(f"rank {rank} could not be started: {error}", 1))
                break
            self._guard.add(worker.pid)
            self._workers.append(worker)
            self._output.add(worker)
        # One may have ended before its SIGCHLD had a number to be looked up by.
        self._take_exits()
        self.turn_until(lambda: all(worker.status is not None for worker in self._workers))
        self.settle()

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
        if self.failure is not None and self.failure.was_asked:
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
            self._is_asked_twice = self.failure is not None
            if self._is_asked_twice:
                # No more grace, no more waiting for a slow reader.
                self._kill_at = time.monotonic()
            failure = Failure(f"ended by {signal_name(number)}", 128 + number, was_asked=True)
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
            self.stop_because(
                worker_failure(worker, text, self._where, began=began, was_ended=was_ended)
            )

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
                    self.stop_because(frozen)
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
    return Failure(f"the output could not be written: {error.strerror}", 1)
