"""The loop of one node: its workers, the launcher's signals, and the deadlines at the end."""

from __future__ import annotations

import errno
import math
import signal
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from selectors import EVENT_READ, BaseSelector

from fastdist.distributed.constants import PREEMPTED_EXIT_STATUS
from fastdist.launch.ending import Ending, grace_s
from fastdist.launch.failure_text import lost_ranks
from fastdist.launch.guard import Guard
from fastdist.launch.lost_workers import Hangs, LostWorker
from fastdist.launch.output import Output
from fastdist.launch.report import Failure, first_of, signal_name, worker_failure
from fastdist.launch.screen import Screen
from fastdist.launch.signals import (
    SignalPipe,
    comes_twice,
    is_ending,
    is_passed_on,
    suspend_process,
)
from fastdist.launch.stopped_workers import StoppedWorkers
from fastdist.launch.worker_process import WorkerProcess

# If another worker has failed, a worker without a SIGTERM handler gets SIGTERM after this delay.
# Meanwhile, its call to the failed worker raises an error, which the program can report or handle.
NOTICES_S = 0.3
# A worker that has begun to print a traceback gets this long to end before it gets a signal.
SPARED_S = 2.0
# A signal that comes twice within this time is one request.
_TWICE_S = 1.0
_HURRIED_OUTPUT_S = 0.5
# The exit statuses of a worker that has ended as a scheduler's signal requested.
_AGREED = frozenset({0, PREEMPTED_EXIT_STATUS})
_LAST_OF_JOB = "it is not started again, for all other workers have finished"


# Starts a worker; the argument is how often it was started before.
Start = Callable[[int], WorkerProcess]


def _do_nothing(*said: object) -> None:
    """Ignore a call."""


def _others_run(rank: int, ended: Collection[int]) -> bool:
    """Return False: some workers still run."""
    return False


@dataclass(frozen=True)
class Comebacks:
    """The handling of a worker that fails while others continue.

    By default the others are ended as well.
    """

    # How often each worker may be started again.
    most: int = 0
    # Called at each failure, with the number of the worker's restarts and the limit of this number.
    tell: Callable[[Failure, int, int], None] = _do_nothing
    # Returns whether all workers except the given rank have ended with status 0; the second
    # argument has the ranks of this node that have ended with status 0.
    others_have_ended: Callable[[int, Collection[int]], bool] = _others_run
    counts: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Endings:
    """The end of a round: the workers' time limit, and callbacks."""

    # --shutdown-timeout, or None if it is not given.
    timeout_s: float | None = None
    # Prints a line of the launcher.
    say: Callable[[str], None] = _do_nothing
    # Called with the first failure when this node's workers are signalled.
    begins: Callable[[Failure], None] = _do_nothing


class Job:
    """This node's workers in one round, from their start to their end.

    `failure` is the first failure, or None. `interrupt` has the signal with which a user or a
    scheduler ended the job, if any. `is_last` says that no other round may follow.
    Thread  only the launcher's main thread
    """

    def __init__(
        self,
        screen: Screen,
        selector: BaseSelector,
        signals: SignalPipe,
        guard: Guard,
        where: Callable[[], str] = str,
        has_ended_well: Callable[[int], object] = _do_nothing,
        comebacks: Comebacks | None = None,
        endings: Endings | None = None,
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
        # Called with the rank of each worker that ends without a failure.
        self._has_ended_well = has_ended_well
        self._comebacks = Comebacks() if comebacks is None else comebacks
        self._output = Output(screen, selector)
        self._starts: Mapping[int, Start] = {}
        self._workers: list[WorkerProcess] = []
        self._stopped = StoppedWorkers()
        self._hangs = Hangs()
        # The pid of a frozen worker that was killed -> the reason.
        self._given_up: dict[int, Failure] = {}
        self._endings = Endings() if endings is None else endings
        self._ending = Ending(self._endings.say)
        self._interrupted_at = -math.inf
        # Whether a second signal came.
        self.is_asked_twice = False
        self._has_lost_output = False
        selector.register(signals.fileno(), EVENT_READ, self._take_signals)

    def close(self) -> None:
        """Unregister from the signals, so that another round can use them."""
        self._selector.unregister(self._signals.fileno())

    def run(self, starts: Mapping[int, Start], number: int = 0) -> None:
        """Start the workers by rank, and show their output until the last one has ended."""
        self._starts = starts
        # A signal may have come since the last round.
        self._take_signals()
        for rank in starts:
            if self.failure is not None:
                break
            worker = self._start(rank, number)
            if worker is not None:
                self._workers.append(worker)
        # A worker may have ended before its pid was stored for the look-up at SIGCHLD.
        self._take_exits()
        self.turn_until(lambda: self._has_ended)
        self.settle()

    @property
    def _has_ended(self) -> bool:
        if self.failure is not None and self._ending.is_over:
            return True
        return all(worker.status is not None for worker in self._workers)

    @property
    def was_stopped_well(self) -> bool:
        """Whether a scheduler's signal ended the job, and all workers here agreed to it.

        They agreed if they exited with 0, or with the status that requests a later start.
        """
        asked = self.failure is not None and self.failure.may_end_well
        statuses = [worker.status for worker in self._workers]
        return asked and len(statuses) == len(self._starts) > 0 and _AGREED.issuperset(statuses)

    @property
    def agreed_end(self) -> Failure | None:
        """After `was_stopped_well`, the failure to report: None, or a request for a later start."""
        if all(worker.status == 0 for worker in self._workers):
            return None
        assert self.failure is not None
        return replace(self.failure, exit_status=PREEMPTED_EXIT_STATUS)

    @property
    def is_hurried(self) -> bool:
        """Whether the launcher must not wait: after Ctrl-C, or if the output's reader is gone."""
        asked = [one for one in (self.failure, self.interrupt) if one is not None and one.was_asked]
        return self.is_asked_twice or any(
            not (one.may_end_well or one.is_from_afar) for one in asked
        )

    @property
    def left_s(self) -> float:
        """The workers' remaining time in seconds; on other nodes it is about the same."""
        return self._ending.left_s()

    def _start(self, rank: int, restart_count: int) -> WorkerProcess | None:
        try:
            worker = self._starts[rank](restart_count)
        except OSError as error:
            # No process, memory or file descriptor is available: the workers that already run must
            # end.
            sentence = f"rank {rank} could not be started: {error}"
            self.stop_because(Failure(sentence, 1, is_final=True))
            return None
        self._guard.add(worker.pid)
        self._output.add(worker)
        return worker

    def turn_until(self, is_over: Callable[[], bool], timeout_s: float | None = None) -> None:
        """Handle pipes, signals, exits and deadlines until is_over() is true after a turn."""
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
                self.stop(_lost_output(self._screen.error), signal.SIGTERM)

    def stop(self, failure: Failure, number: signal.Signals) -> None:
        """Ask all workers to end, and kill the workers that still run at the deadline. A second
        call only records its failure.
        """
        self.is_last = self.is_last or failure.is_final or failure.was_asked
        if self.failure is not None:
            self._also(failure)
            return
        self.failure = failure
        ask_after_s = {} if failure.was_asked else self._head_starts()
        timeout_s = grace_s(number, self._endings.timeout_s)
        is_own = failure.was_asked and not failure.is_from_afar
        because = f"{signal_name(number)} came" if is_own else failure.sentence
        self._ending.begin(self._workers, number, timeout_s, because, ask_after_s)
        self._endings.begins(failure)

    def _also(self, failure: Failure) -> None:
        """Keep a later failure, or replace another node's earlier report by one with more detail.

        After a Ctrl-C, or when the reader of the output is gone, the failure is dropped.
        """
        assert self.failure is not None
        known = [self.failure, *self.also_failed]
        for index, former in enumerate(known):
            if failure.source and former.source == failure.source:
                known[index] = replace(failure, began=former.began)
                self.failure, *self.also_failed = known
                return
        both_requeue = failure.wants_requeue and self.failure.wants_requeue
        if not (failure.was_asked or failure.is_hearsay or both_requeue or self.is_hurried):
            self.also_failed.append(failure)

    def _head_starts(self) -> dict[int, float]:
        """Return by rank how long SIGTERM is delayed for some workers after another has failed."""
        self._output.read_errors()
        after_s = {}
        for worker in self._workers:
            if self._output.holds_text_of(worker):
                after_s[worker.rank] = SPARED_S
            elif worker.speaks_by_sockets() and not worker.catches(signal.SIGTERM):
                after_s[worker.rank] = NOTICES_S
        return after_s

    def stop_because(self, failure: Failure) -> None:
        """Stop all workers as after a worker's failure."""
        self.stop(failure, signal.SIGTERM)

    def finish(self) -> None:
        """Write the remaining output; after a signal, only for a moment."""
        until = None
        was_asked = self.failure is not None and self.failure.was_asked
        if self.is_asked_twice or self.interrupt is not None or was_asked:
            until = time.monotonic() + _HURRIED_OUTPUT_S
        while not self._screen.is_empty:
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                return
            for key, _ in self._selector.select(left):
                key.data()

    def _take_signals(self) -> None:
        # A signal that came twice since the last turn of the loop counts as one request.
        for number in dict.fromkeys(self._signals.take()):
            if number is signal.SIGTSTP:
                self._suspend()
            if is_passed_on(number):
                for worker in self._workers:
                    worker.pass_on(number)
            if is_ending(number):
                self._take_ending(number)
        self._take_exits()

    def _take_ending(self, number: signal.Signals) -> None:
        """End the job; a second signal, or a later Ctrl-C, kills the workers immediately."""
        failure = Failure(
            f"ended by {signal_name(number)}", 128 + number, was_asked=True, asked_by=number
        )
        now, former = time.monotonic(), self.interrupt
        if former is None:
            self.interrupt, self._interrupted_at = failure, now
            if self.failure is not None and number is signal.SIGINT:
                self._ending.hurry()
        elif now - self._interrupted_at > _TWICE_S or not (
            former.asked_by == number and comes_twice(number)
        ):
            # Also stop waiting for a slow reader of the output.
            self.is_asked_twice = True
            self._ending.hurry()
        self.stop(failure, number)

    def _suspend(self) -> None:
        # Ctrl-Z reaches only the launcher. Workers that still ran would miss the launcher's store.
        for worker in self._workers:
            worker.send(signal.SIGSTOP)
        suspend_process()
        for worker in self._workers:
            worker.send(signal.SIGCONT)

    def _take_exits(self) -> None:
        ended = [worker for worker in self._workers if worker.has_ended()]
        # Workers that were killed come first: a worker with a traceback may have failed because
        # of a killed worker.
        for worker in sorted(ended, key=lambda worker: worker.status or 0):
            self._guard.discard(worker.pid)
            text, began, reference = self._output.last_words(worker)
            was_ended = worker.rank in self._ending.asked
            if worker.status == 0:
                self._has_ended_well(worker.rank)
                continue
            if was_ended and not text:
                # The worker ended because of the signal, which is not a failure.
                continue
            failure = self._given_up.pop(worker.pid, None) or worker_failure(
                worker, text or reference, self._where(), began=began, was_ended=was_ended
            )
            if self.failure is not None or not self._starts_again(worker, failure):
                self.stop_because(failure)

    def _starts_again(self, lost: WorkerProcess, failure: Failure) -> bool:
        """Start a lost worker again while the others continue; return whether that was possible."""
        counts = self._comebacks.counts
        if failure.is_final or counts.get(lost.rank, 0) >= self._comebacks.most:
            return False
        if self._is_last_of_job(lost):
            sentence = f"{failure.sentence}; {_LAST_OF_JOB}"
            self.stop_because(replace(failure, sentence=sentence))
            return True
        counts[lost.rank] = count = counts.get(lost.rank, 0) + 1
        self._comebacks.tell(failure, count, self._comebacks.most)
        self._output.forget(lost)
        worker = self._start(lost.rank, count)
        if worker is not None:
            self._workers[self._workers.index(lost)] = worker
        return True

    def _is_last_of_job(self, lost: WorkerProcess) -> bool:
        """Return whether all other workers have ended with status 0, so that a restarted worker
        would run alone.
        """
        here = [worker for worker in self._workers if worker is not lost]
        ended = {worker.rank for worker in here if worker.status == 0}
        if len(ended) < len(self._starts.keys() - {lost.rank}):
            return False
        return self._comebacks.others_have_ended(lost.rank, ended)

    def end_lost(self, lost: LostWorker) -> None:
        """Kill a worker that another worker declared lost, or watch it if it hangs. Do nothing if
        the worker has ended or the job is ending.
        """
        for worker in self._workers:
            if worker.rank != lost.rank or not worker.leads(lost.pid) or self.failure is not None:
                continue
            if lost.hangs:
                self._hangs.watch(worker, lost, time.monotonic())
            else:
                self._kill_lost(worker, f"was declared lost by {lost.by}: {lost.why}")

    def _kill_lost(self, worker: WorkerProcess, what: str) -> None:
        sentence = f"rank {worker.rank} (pid {worker.pid}) {what}; it has been killed"
        self._give_up(worker, Failure(sentence, 1, rank=worker.rank))

    def _give_up(self, worker: WorkerProcess, frozen: Failure) -> None:
        """Kill a frozen worker; it is started again if that is allowed."""
        self._given_up[worker.pid] = frozen
        worker.send(signal.SIGKILL)

    def _end_stopped(self, now: float) -> None:
        frozen = self._stopped.look(self._workers, now)
        for worker in self._workers:
            if frozen is not None and worker.rank == frozen.rank:
                self._give_up(worker, frozen)

    def settle(self) -> None:
        """Determine the first failure; it may not be the failure of the worker that ended first.

        Failures of other nodes may become known later; this method is then called again.
        """
        if self.failure is None or self.failure.was_asked:
            return
        failures = [self.failure, *self.also_failed]
        self.failure = first_of(failures, [worker.rank for worker in self._workers])
        self.also_failed = []
        for failure in failures:
            if failure is self.failure:
                continue
            outlived = failure.was_ended and failure.began <= self._ending.began
            if outlived and failure.rank is not None and not lost_ranks(failure.text):
                # The worker was spared, and continued after its traceback: it had caught that
                # error.
                self._output.print_held(failure.rank, failure.text)
            else:
                self.also_failed.append(failure)

    def _next_deadline(self) -> float:
        if self.failure is not None:
            # While the job ends, held text waits for the end of its worker.
            return self._ending.next_deadline()
        release = self._output.next_release()
        look = min(self._stopped.next_look(self._workers), self._hangs.next_look())
        return look if release is None else min(look, release)

    def _meet_deadlines(self) -> None:
        now = time.monotonic()
        if self.failure is None:
            self._output.release_held(now)
            if now >= self._stopped.next_look(self._workers):
                self._end_stopped(now)
            for worker, lost in self._hangs.without_progress(now):
                what = f"makes no progress, and does not answer {lost.by}: it {lost.why}"
                self._kill_lost(worker, what)
            return
        for worker in self._ending.due(now):
            # The worker may have begun to print a traceback in the meantime.
            if self._output.holds_text_of(worker) and now < self._ending.began + SPARED_S:
                self._ending.put_off(worker, SPARED_S)
        self._ending.meet_deadlines(now)


def _lost_output(error: OSError) -> Failure:
    """Return the failure of a job whose output cannot be written any more."""
    if isinstance(error, BrokenPipeError) or error.errno == errno.EIO:
        # The reader (`| head`, a terminal) is gone: end silently, with the exit status for SIGPIPE.
        return Failure("", 128 + signal.SIGPIPE, was_asked=True)
    return Failure(f"the output could not be written: {error.strerror}", 1, is_final=True)
