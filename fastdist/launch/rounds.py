"""The rounds of a job on this node: all workers start, and start again if one has failed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing, contextmanager
from functools import partial
from selectors import EVENT_READ, BaseSelector
from typing import TYPE_CHECKING

from fastdist.distributed.constants import PREEMPTED_EXIT_STATUS
from fastdist.launch.job import Job, Start
from fastdist.launch.lost_workers import LostWorker
from fastdist.launch.nodes import Meeting
from fastdist.launch.report import Failure, signal_name, write_report
from fastdist.launch.screen import Screen

if TYPE_CHECKING:
    from collections.abc import Iterator

# After a Ctrl-C the other nodes are notified, but this node waits for them only this long.
_HURRIED_GOODBYE_S = 0.7
# After SIGTERM, this node waits for the time that workers of other nodes have left, and this much
# longer: the other nodes are notified one heartbeat later, and their reports take another
# heartbeat.
_GOODBYE_S = 1.5


class Rounds:
    """Runs this node's part of each round, and agrees with the other nodes on the next round.

    `make_job` creates the Job of one round. `starts` returns the functions that start the workers,
    after the nodes have met. `most` is the largest number of rounds after the first.
    Thread  only the launcher's main thread
    """

    def __init__(
        self,
        meeting: Meeting,
        screen: Screen,
        selector: BaseSelector,
        make_job: Callable[[], Job],
        starts: Callable[[], Mapping[int, Start]],
        *,
        prog: str,
        most: int,
        log_folder: str | None = None,
    ) -> None:
        self._meeting = meeting
        self._screen = screen
        self._selector = selector
        self._make_job = make_job
        self._starts = starts
        self._prog = prog
        self._most = most
        self._log_folder = log_folder

    def run(self) -> int:
        """Run the rounds; return the exit status of the last round's first failure, or 0."""
        number = 0
        while True:
            with closing(self._make_job()) as job, self._hearing_news(job):
                number = self._run_one(job, number)
                self._part(job, number)
                job.settle()
                is_well = job.was_stopped_well and self._meeting.others_ended_well(number)
                if is_well:
                    requeue = job.agreed_end is not None or self._meeting.others_requeue(number)
                    self._say(_stopped_well(job, requeue))
                    job.finish()
                    return PREEMPTED_EXIT_STATUS if requeue else 0
                failures = job.failure, job.also_failed
                write_report(self._screen, self._prog, *failures, self._log_folder)
                if self._meeting.round == number or job.interrupt is not None:
                    failure = self._what_ended_the_job(job, number)
                    job.finish()
                    return 0 if failure is None else failure.exit_status
            number = self._meeting.round
            again = f"all workers are started again (restart {number} of {self._most})"
            self._say(again)

    @contextmanager
    def _hearing_news(self, job: Job) -> Iterator[None]:
        meeting = self._meeting
        self._selector.register(meeting.fileno(), EVENT_READ, partial(self._take_news, job))
        try:
            yield
        finally:
            self._selector.unregister(meeting.fileno())

    def _take_news(self, job: Job) -> None:
        for news in self._meeting.take():
            if isinstance(news, Failure):
                job.stop_because(news)
            elif isinstance(news, LostWorker):
                job.end_lost(news)
            else:
                self._screen.print(news.encode(), to_stderr=True)

    def _run_one(self, job: Job, number: int) -> int:
        """Run a round as soon as the nodes have met. Return its number, which is greater than
        `number` if this node has joined late.
        """
        meeting = self._meeting
        meeting.begin(number)
        job.turn_until(lambda: meeting.place is not None or job.failure is not None)
        if meeting.place is not None and job.failure is None:
            if meeting.round > number:
                number = meeting.round
                meeting.begin(number)
            job.run(self._starts(), number)
        return number

    def _part(self, job: Job, number: int) -> None:
        """Report the end of the round to the other nodes, and wait for the decision about the next
        one.
        """
        meeting = self._meeting
        self._tell_end(job, number, job.failure)
        job.turn_until(
            lambda: meeting.is_over or meeting.round > number or job.interrupt is not None
        )
        if job.interrupt is not None:
            # The signal came late, perhaps after a failure was reported: no other round may begin.
            self._tell_end(job, number + 1, job.interrupt)
            left_s = _HURRIED_GOODBYE_S if job.is_hurried else job.left_s + _GOODBYE_S
            job.turn_until(lambda: meeting.is_over or job.is_asked_twice, left_s)

    def _tell_end(self, job: Job, number: int, failure: Failure | None) -> None:
        failure = job.agreed_end if job.was_stopped_well else failure
        self._meeting.tell_end(number, failure, is_last=job.is_last, is_hurried=job.is_hurried)

    def _what_ended_the_job(self, job: Job, number: int) -> Failure | None:
        if job.interrupt is None or job.interrupt is job.failure or number >= self._most:
            return job.failure
        # Report the signal: without it, all workers would have been started again.
        self._say(job.interrupt.sentence)
        return job.interrupt

    def _say(self, text: str) -> None:
        self._screen.print(f"{self._prog}: {text}".encode(), to_stderr=True)


def _stopped_well(job: Job, requeue: bool) -> str:
    assert job.failure is not None
    failure = job.failure
    why = failure.sentence if failure.is_from_afar else signal_name(failure.asked_by)
    if requeue:
        return (
            f"stopped on request ({why}): workers have saved their state and ask for a later start "
            f"by exit status {PREEMPTED_EXIT_STATUS}"
        )
    return f"stopped on request ({why}): all workers have exited with status 0"
