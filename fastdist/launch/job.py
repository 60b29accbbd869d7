"""The loop of one node: its workers, the launcher's signals, and the deadlines of an end."""

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

# When another worker has failed, a program that does not handle SIGTERM gets this long first: its
# call to the failed one ends with an error, which it can report or act on.
NOTICES_S = 0.3
# A worker that has begun a traceback by then may end with it, before it gets a signal.
SPARED_S = 2.0
# Within this time a signal that comes twice is one request.
_TWICE_S = 1.0
_HURRIED_OUTPUT_S = 0.5
# The statuses of workers that end as a signal wants.
_AGREED = frozenset({0, PREEMPTED_EXIT_STATUS})
_LAST_OF_JOB = "it is not started again, for all other workers have finished"


# Starts a worker that has been started so often before.
Start = Callable[[int], WorkerProcess]


def _do_nothing(*said: object) -> None:
    """Be told, and leave it at that."""


def _others_run(rank: int, ended: Collection[int]) -> bool:
    """Say that some workers still run."""
    return False


@dataclass(frozen=True)
class Comebacks:
    """The handling of a worker that fails while the others go on: by default they are ended as
    well.
    """

    # How often each worker may come back.
    most: int = 0
    # Told of each failure, how often the worker has been back then, and how often it may be.
    tell: Callable[[Failure, int, int], None] = _do_nothing
    # Whether all workers but that of a rank have ended with status 0, given those of this node
    # that have.
    others_have_ended: Callable[[int, Collection[int]], bool] = _others_run
    counts: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Endings:
    """How a round ends: how long workers have, and which functions are called."""

    # --shutdown-timeout, None where it is not given.
    timeout_s: float | None = None
    # Shows a line of the launcher's own.
    say: Callable[[str], None] = _do_nothing
    # Called with the first failure as soon as the workers of this node are signalled.
    begins: Callable[[Failure], None] = _do_nothing


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
        # Told the rank of each worker that ends without having failed.
        self._has_ended_well = has_ended_well
        self._comebacks = Comebacks() if comebacks is None else comebacks
        self._output = Output(screen, selector)
        self._starts: Mapping[int, Start] = {}
        self._workers: list[WorkerProcess] = []
        self._stopped = StoppedWorkers()
        self._hangs = Hangs()
        # Why a worker was killed that was frozen, by its pid.
        self._given_up: dict[int, Failure] = {}
        self._endings = Endings() if endings is None else endings
        self._ending = Ending(self._endings.say)
        self._interrupted_at = -math.inf
        # Whether a second signal came.
        self.is_asked_twice = False
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
        self.turn_until(lambda: self._has_ended)
        self.settle()

    @property
    def _has_ended(self) -> bool:
        if self.failure is not None and self._ending.is_over:
            return True
        return all(worker.status is not None for worker in self._workers)

    @property
    def was_stopped_well(self) -> bool:
        """Whether a scheduler's signal ended the job, and all workers here have agreed to it: they
        have exited with 0, or with the status that asks for a later start.
        """
        asked = self.failure is not None and self.failure.may_end_well
        statuses = [worker.status for worker in self._workers]
        return asked and len(statuses) == len(self._starts) > 0 and _AGREED.issuperset(statuses)

    @property
    def agreed_end(self) -> Failure | None:
        """After `was_stopped_well`, the end to report: None, or the wish for a later start."""
        if all(worker.status == 0 for worker in self._workers):
            return None
        assert self.failure is not None
        return replace(self.failure, exit_status=PREEMPTED_EXIT_STATUS)

    @property
    def is_hurried(self) -> bool:
        """Whether nothing is waited for: after Ctrl-C, or once the output has lost its reader."""
        asked = [one for one in (self.failure, self.interrupt) if one is not None and one.was_asked]
        return self.is_asked_twice or any(
            not (one.may_end_well or one.is_from_afar) for one in asked
        )

    @property
    def left_s(self) -> float:
        """How long the workers still have, on this node and about as long on the others."""
        return self._ending.left_s()

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
        """Serve pipes, signals, exits and deadlines until is_over, called after each turn."""
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
        """Ask all workers to end, and kill those that do not in time; the first call decides."""
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
        """Keep a later failure, or one that another node has reported before in fewer words.

        After a Ctrl-C, or once the reader of the output has gone, it is dropped.
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
        """Return by rank how much later some workers get SIGTERM where another one has failed."""
        self._output.read_errors()
        after_s = {}
        for worker in self._workers:
            if self._output.holds_text_of(worker):
                after_s[worker.rank] = SPARED_S
            elif worker.speaks_by_sockets() and not worker.catches(signal.SIGTERM):
                after_s[worker.rank] = NOTICES_S
        return after_s

    def stop_because(self, failure: Failure) -> None:
        """Stop as for a worker that failed."""
        self.stop(failure, signal.SIGTERM)

    def finish(self) -> None:
        """Write out what is still to be shown: all of it, but only for a moment after a signal."""
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
        # A signal that came twice since the last turn is one request.
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
        """End the job; a second signal leaves the workers no more time, nor does a late Ctrl-C."""
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
            # It does not wait for a slow reader of the output either.
            self.is_asked_twice = True
            self._ending.hurry()
        self.stop(failure, number)

    def _suspend(self) -> None:
        # A Ctrl-Z reaches the launcher alone: its workers would run on, and miss their store.
        for worker in self._workers:
            worker.send(signal.SIGSTOP)
        suspend_process()
        for worker in self._workers:
            worker.send(signal.SIGCONT)

    def _take_exits(self) -> None:
        ended = [worker for worker in self._workers if worker.has_ended()]
        # A worker that was killed did not fail because of another; one that raised may have.
        for worker in sorted(ended, key=lambda worker: worker.status or 0):
            self._guard.discard(worker.pid)
            text, began = self._output.last_words(worker)
            was_ended = worker.rank in self._ending.asked
            if worker.status == 0:
                self._has_ended_well(worker.rank)
                continue
            if was_ended and not text:
                # It was ended like the others, which says nothing.
                continue
            failure = self._given_up.pop(worker.pid, None) or worker_failure(
                worker, text, self._where(), began=began, was_ended=was_ended
            )
            if self.failure is not None or not self._starts_again(worker, failure):
                self.stop_because(failure)

    def _starts_again(self, lost: WorkerProcess, failure: Failure) -> bool:
        """Start a lost worker again while the others go on; return False where that is not
        possible.
        """
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
        """Say whether all other workers have ended well: started again, it would find nobody."""
        here = [worker for worker in self._workers if worker is not lost]
        ended = {worker.rank for worker in here if worker.status == 0}
        if len(ended) < len(self._starts.keys() - {lost.rank}):
            return False
        return self._comebacks.others_have_ended(lost.rank, ended)

    def end_lost(self, lost: LostWorker) -> None:
        """Kill a worker that another has declared lost, unless it has ended, and the job does."""
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
        """Kill a frozen worker, which comes back if it may."""
        self._given_up[worker.pid] = frozen
        worker.send(signal.SIGKILL)

    def _end_stopped(self, now: float) -> None:
        frozen = self._stopped.look(self._workers, now)
        for worker in self._workers:
            if frozen is not None and worker.rank == frozen.rank:
                self._give_up(worker, frozen)

    def settle(self) -> None:
        """Find which failure was the first, now that all are known; the first to end may not be.

        Those of other nodes may be known later than those of this one: it is checked again then.
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
                # It was spared, and went on after its traceback: it had caught that error.
                self._output.print_held(failure.rank, failure.text)
            else:
                self.also_failed.append(failure)

    def _next_deadline(self) -> float:
        if self.failure is not None:
            # Once the job ends, held text waits for its worker's end.
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
            # Its error came meanwhile.
            if self._output.holds_text_of(worker) and now < self._ending.began + SPARED_S:
                self._ending.put_off(worker, SPARED_S)
        self._ending.meet_deadlines(now)


def _lost_output(error: OSError) -> Failure:
    """Describe the end of a job whose output nobody takes any more."""
    if isinstance(error, BrokenPipeError) or error.errno == errno.EIO:
        # The reader (`| head`, a terminal) has gone: end as by SIGPIPE, without words.
        return Failure("", 128 + signal.SIGPIPE, was_asked=True)
    return Failure(f"the output could not be written: {error.strerror}", 1, is_final=True)
