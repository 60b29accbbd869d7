"""One peer's messages, however many and however wrong, keep nobody else waiting."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from fastdist.core.future import Future
from fastdist.distributed.rpc.workers import progress as progress_module
from fastdist.distributed.rpc.workers.progress import AwakeClock, Progress
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
    now = 104.6  # stopped for 4 seconds while an alarm was due
    clock.look(due=100.6)
    assert clock.now() == 100.6
    assert clock.stood_still_lately()
    clock.look(due=100.6)  # another alarm of the same absence
    assert clock.now() == 100.6
    now = 200.0  # nothing was due
    clock.look(due=math.inf)
    assert clock.now() == 196.0 and clock.woke_at() == 100.6
    assert not clock.stood_still_lately()


class Flood:
    """A lane on which messages have come, as many as are asked for."""

    def __init__(self, messages: Iterator[list[bytes]]) -> None:
        self.messages = messages

    def receive(self) -> list[bytes] | None:
        return next(self.messages, None)

    def fileno(self) -> int:
        return 7


def peer_of(lane: Flood, on_answer: Any, posted: list[Any]) -> Worker:
    peer: Any = object.__new__(Worker)
    peer._shared, peer._pulse, peer._lane_fd = lane, None, lane.fileno()
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
