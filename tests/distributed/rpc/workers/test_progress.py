"""The messages of one peer, however many or malformed, do not delay other peers."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from fastdist.concurrency.future import Future
from fastdist.distributed.rpc.workers import progress as progress_module
from fastdist.distributed.rpc.workers.progress import AwakeClock, Progress
from fastdist.distributed.rpc.workers.session import Event, LivenessTimeouts, Session
from fastdist.distributed.rpc.workers.worker import Worker


def test_what_posts_itself_does_not_hold_up_what_expires() -> None:
    expired, is_over = threading.Event(), threading.Event()
    progress = Progress("progress of the test")

    class Call:
        def expire(self) -> None:
            expired.set()

    def again() -> None:
        if not is_over.is_set():
            progress.post(again)

    progress.start()
    progress.post(again)
    progress.timeouts.add(Call(), time.monotonic() + 0.02)
    progress.wake()
    came = expired.wait(5)
    is_over.set()
    progress.stop()
    assert came


def test_a_thread_that_stops_itself_ends_without_waiting_for_itself() -> None:
    progress = Progress("progress of the test")
    outcome: Future[None] = Future()

    def stop() -> None:
        try:
            progress.stop()
        except BaseException as error:
            outcome.try_complete(error=error)
        else:
            outcome.try_complete(None)

    progress.start()
    progress.post(stop)
    outcome.wait(20)


def test_an_alarm_rings_though_there_is_no_other() -> None:
    progress = Progress("progress of the test")
    rang = threading.Event()
    progress.start()
    try:
        progress.post(progress.call_at, time.monotonic() + 0.01, rang.set)
        assert rang.wait(20)
    finally:
        progress.stop()


def test_a_clock_stands_still_while_its_process_does(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(progress_module, "time", SimpleNamespace(monotonic=lambda: now))
    clock = AwakeClock()
    now = 100.5
    clock.look(due=100.5)
    assert clock.now() == 100.5
    assert not clock.stood_still_lately() and clock.woke_at() == -math.inf
    now = 104.6  # the process was stopped for 4 seconds while an alarm was due
    clock.look(due=100.6)
    assert clock.now() == 100.6
    assert clock.stood_still_lately()
    clock.look(due=100.6)  # another alarm due during the same stop
    assert clock.now() == 100.6
    now = 200.0  # no alarm was due since the last call of `look`
    clock.look(due=math.inf)
    assert clock.now() == 196.0 and clock.woke_at() == 100.6
    assert not clock.stood_still_lately()


def test_a_clock_leaves_out_what_a_busy_machine_held_up(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(progress_module, "time", SimpleNamespace(monotonic=lambda: now))
    clock, ran_s = AwakeClock(), 0.0
    for _ in range(100):
        now += 0.1
        due = now
        now += 0.3  # the thread waits this long for a core
        clock.look(due=due)
        ran_s += 0.1
    assert clock.now() == pytest.approx(100.0 + ran_s)
    # The peers ran during these delays, so the clock reports no stop, and waits for peers continue.
    assert clock.woke_at() == -math.inf and not clock.stood_still_lately()
    before = clock.now()
    for _ in range(100):
        now += 0.11
        clock.look(due=now - 0.01)  # an alarm is usually this late
    assert clock.now() == pytest.approx(before + 11.0)


def test_a_stop_between_two_looks_is_known_before_a_refusal_that_came_in_it_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 100.0
    monkeypatch.setattr(progress_module, "time", SimpleNamespace(monotonic=lambda: now))
    progress = Progress("progress of the test")
    seen: list[Any] = []
    try:
        progress._clock.look(math.inf)
        progress.call_at(100.5, lambda: None)
        now = 104.6  # the process was stopped after the thread woke up and before it reads a lane
        progress._call(lambda: seen.append((progress.now(), progress.woke_at())))
        assert seen == [(100.5, 100.5)] and progress.stood_still_lately()
        now = 120.0
        progress._clock.look(now)
        assert not progress.stood_still_lately()
        now = 124.6  # the process was stopped while a lane is read
        progress.call_at(120.5, lambda: None)
        assert progress.stood_still_lately()
    finally:
        progress.stop()


@pytest.mark.parametrize("held_up_s", [0.0, 0.01, 0.3, 0.9, 5.0])
def test_a_silent_peer_is_lost_when_this_worker_itself_has_run_for_the_time_that_it_has(
    held_up_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An alarm is due each 0.1 s, and runs `held_up_s` late; the loss is detected in time."""
    now = 100.0
    monkeypatch.setattr(progress_module, "time", SimpleNamespace(monotonic=lambda: now))
    clock = AwakeClock()
    peer = Session(clock.now(), LivenessTimeouts(frozen_s=10.0, notice_s=0.0))
    peer.step(Event.CONNECTED, clock.now())
    peer.step(Event.DISCONNECTED, clock.now(), woke_at=clock.woke_at)
    ran_s = 0.0
    while not peer.has_left_or_died:
        now += 0.1
        due = now
        now += held_up_s
        clock.look(due=due)
        ran_s += 0.1 if held_up_s > 0.02 else 0.1 + held_up_s
        peer.step(Event.TICK, clock.now(), woke_at=clock.woke_at)
        assert ran_s < 10.3
    assert ran_s > 9.9


class Flood:
    """A lane with an unlimited supply of messages."""

    def __init__(self, messages: Iterator[list[bytes]]) -> None:
        self.messages = messages

    def receive(self) -> list[bytes] | None:
        return next(self.messages, None)

    def fileno(self) -> int:
        return 7


def peer_of(lane: Flood, on_answer: Any, posted: list[Any]) -> Worker:
    peer: Any = object.__new__(Worker)
    peer._shared, peer._pulse, peer._descriptors = lane, None, None
    peer._take = on_answer
    peer.info = SimpleNamespace(name="w1")
    peer._progress = SimpleNamespace(post=posted.append)
    return peer  # type: ignore[no-any-return]


def test_a_flood_of_answers_is_read_in_turns() -> None:
    posted: list[Any] = []
    read: list[Any] = []
    lane = Flood([b"%d" % i] for i in iter(lambda: len(read), 1000))
    peer = peer_of(lane, read.append, posted)
    peer._read()
    assert len(read) < 500 and posted == [peer._read]
    while posted:
        posted.pop()()
    assert len(read) == 1000


def test_a_message_that_makes_no_sense_does_not_hide_the_next(
    caplog: pytest.LogCaptureFixture,
) -> None:
    read: list[Any] = []

    def on_answer(frames: list[bytes]) -> None:
        if frames == [b"0"]:
            raise TypeError("nobody foresaw this")
        read.append(frames)

    with caplog.at_level(logging.ERROR):
        peer_of(Flood(iter([[b"0"], [b"1"]])), on_answer, [])._read()
    assert read == [[b"1"]]
    assert "a message of worker 'w1' could not be read" in caplog.text
