"""Ending a node's workers step by step: signals, reports and kills, in time."""

from __future__ import annotations

import math
import signal
import time
from typing import Any

import pytest

from fastdist.launch import ending
from fastdist.launch.ending import KILLED_S, NOTICE_S, Ending


class FakeWorker:
    """A stand-in for a WorkerProcess; the test ends it, and SIGKILL does not."""

    def __init__(self, rank: int) -> None:
        self.rank, self.pid = rank, 100 + rank
        self.status: int | None = None
        self.sent: list[signal.Signals] = []

    def ask_to_end(self, number: signal.Signals) -> None:
        self.sent.append(number)

    def send(self, number: signal.Signals) -> None:
        self.sent.append(number)


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Replace the clock by a list with one number, its time; return the list."""
    clock = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    return clock


def begin(workers: list[Any], said: list[str], **later: float) -> Ending:
    end = Ending(said.append)
    after_s = {int(rank[1:]): after for rank, after in later.items()}
    end.begin(workers, signal.SIGTERM, 100.0, "rank 2 failed", after_s)
    return end


def test_all_are_signalled_at_once_but_those_that_have_a_head_start(now: list[float]) -> None:
    workers = [FakeWorker(rank) for rank in range(3)]
    end = begin(workers, [], _0=0.5, _2=0.5)
    assert [worker.sent for worker in workers] == [[], [signal.SIGTERM], []]
    assert end.next_deadline() == now[0] + 0.5
    now[0] += 0.5
    assert end.due(now[0]) == [workers[0], workers[2]]
    end.put_off(workers[2], 2.0)  # type: ignore[arg-type]
    end.meet_deadlines(now[0])
    assert [len(worker.sent) for worker in workers] == [1, 1, 0]
    now[0] += 1.5
    end.meet_deadlines(now[0])
    assert [worker.sent for worker in workers] == [[signal.SIGTERM]] * 3
    assert end.asked == {0, 1, 2}


def test_those_that_still_run_are_named_after_pauses_that_grow(now: list[float]) -> None:
    workers, said = [FakeWorker(rank) for rank in (0, 1, 3)], list[str]()
    end = begin(workers, said)
    workers[1].status = 0
    began, times = now[0], []
    while (at := end.next_deadline()) < began + 100.0:
        now[0] = at
        end.meet_deadlines(at)
        times.append(at - began)
    assert times == [NOTICE_S, 6.0, 12.0, 24.0, 48.0, 96.0]
    assert said[0] == (
        "rank 2 failed; waits for ranks 0, 3 (pid 100, 103) to end, for 99 s more "
        "(--shutdown-timeout); Ctrl-C kills them at once"
    )
    assert end.left_s() == 4.0
    for worker in workers:
        worker.status = 0
    assert end.is_over and end.next_deadline() == math.inf


def test_those_that_stay_are_killed_and_no_longer_waited_for(now: list[float]) -> None:
    workers, said = [FakeWorker(0), FakeWorker(1)], list[str]()
    end = begin(workers, said, _1=2.0)
    end.hurry()
    end.meet_deadlines(now[0])
    assert [worker.sent for worker in workers] == [
        [signal.SIGTERM, signal.SIGKILL],
        [signal.SIGKILL],
    ]
    assert said == ["killed ranks 0-1 (pid 100, 101), still running 0 s after SIGTERM"]
    workers[0].status = -9
    assert not end.is_over
    assert end.next_deadline() == now[0] + KILLED_S
    now[0] += KILLED_S
    end.meet_deadlines(now[0])
    assert end.is_over and end.next_deadline() == math.inf
    assert said[1] == "rank 1 (pid 101) cannot be killed: a process hangs in the kernel"


def test_all_of_an_end_fits_into_what_schedulers_leave() -> None:
    # Schedulers send SIGKILL 30 s after SIGTERM. Another node may learn of the end one heartbeat
    # later, and its report may take one more heartbeat.
    longest_s = ending.grace_s(signal.SIGTERM, None) + KILLED_S
    assert ending.SHUTDOWN_S < longest_s < 28.0
