"""Notices are sent soon, in batches, and an error in sending one does not stop the others."""

from __future__ import annotations

import gc
import logging
import threading
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from fastdist.concurrency.future import Future
from fastdist.core.errors import RpcError
from fastdist.distributed.rpc import notices
from fastdist.distributed.rpc.handlers import Reply
from fastdist.distributed.rpc.message.types import MessageType
from fastdist.distributed.rpc.notices import _MOST, NoticeSender
from tests.distributed.lives import Life

KIND = MessageType.RREF_USER_DELETE
ONE: Any = Life(1)
TWO: Any = Life(2)


class Others:
    """Stand-ins for the other workers: they record the notices sent to them, and may refuse."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, Any, int, float]] = []
        self.answers: dict[int, Future[Reply]] = {}
        self.told: list[tuple[Any, list[Any]]] = []
        self.errors: list[Exception] = []
        self._changed = threading.Condition()

    def send(
        self,
        to: Life,
        message_type: int,
        tensors: Sequence[Any] = (),
        metadata: Any = None,
        timeout_s: float = 0.0,
        retries: int = 0,
    ) -> Future[Reply]:
        if self.errors:
            raise self.errors.pop()
        assert message_type == KIND
        self.sent.append((to.id, metadata, retries, timeout_s))
        return self.answers.setdefault(to.id, Future())

    def hear(self, addressee: Any, items: Sequence[Any]) -> None:
        if self.errors:
            raise self.errors.pop()
        with self._changed:
            self.told.append((addressee, [*items]))
            self._changed.notify_all()

    def hear_otherwise(self, addressee: Any, items: Sequence[Any]) -> None:
        self.told.append((f"{addressee}'", [*items]))

    def wait_for(self, count: int) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: len(self.told) >= count, 5.0)


@pytest.fixture
def others() -> Others:
    return Others()


@pytest.fixture
def notice_sender(others: Others) -> Iterator[NoticeSender]:
    notice_sender = NoticeSender(others.send)  # type: ignore[arg-type]
    notice_sender.start()
    yield notice_sender
    notice_sender.close()


def test_words_are_sent_at_once_and_repeated_so_often_in_so_long(
    notice_sender: NoticeSender, others: Others
) -> None:
    notice_sender.send(ONE, KIND, {"fork": 5}, failure="")
    notice_sender.send(TWO, KIND, {"fork": 6}, failure="", retries=20, timeout_s=10.0)
    assert others.sent == [(1, {"fork": 5}, 5, 0.0), (2, {"fork": 6}, 20, 10.0)]


def test_a_life_that_is_over_is_told_nothing(notice_sender: NoticeSender, others: Others) -> None:
    over: Any = Life(1)
    over.is_dead = True
    notice_sender.send(over, KIND, {"fork": 5}, failure="")
    notice_sender.send(ONE, KIND, {"fork": 6}, failure="")
    assert others.sent == [(1, {"fork": 6}, 5, 0.0)]


def test_an_answer_is_looked_at(notice_sender: NoticeSender, others: Others) -> None:
    looked: list[Reply] = []
    notice_sender.send(ONE, KIND, {}, failure="", then=looked.append)
    reply = Reply([], {"held": (3,)})
    others.answers[1].set_result(reply)
    assert looked == [reply]


@pytest.mark.parametrize("is_sent", [False, True])
def test_a_failure_is_logged_with_the_worker_and_raises_nothing(
    notice_sender: NoticeSender, others: Others, is_sent: bool, caplog: pytest.LogCaptureFixture
) -> None:
    error = RpcError("gone")
    others.errors += [] if is_sent else [error]
    looked: list[Reply] = []
    with caplog.at_level(logging.INFO, "fastdist"):
        notice_sender.send(Life(7), KIND, {}, failure="Nothing was forgotten", then=looked.append)
        if is_sent:
            others.answers[7].set_exception(error)
    assert [record.message for record in caplog.records] == [
        "Nothing was forgotten on node 7: worker 'w7' was not notified: gone"
    ]
    assert looked == []


@pytest.mark.parametrize("why_lost", ["", "its process is gone"])
def test_who_leaves_before_it_is_told_is_no_failure_but_who_is_lost_is(
    notice_sender: NoticeSender, others: Others, why_lost: str, caplog: pytest.LogCaptureFixture
) -> None:
    life: Any = Life(7)
    with caplog.at_level(logging.INFO, "fastdist"):
        notice_sender.send(life, KIND, {}, failure="Nothing was forgotten")
        life.is_dead, life.why_lost = True, why_lost
        others.answers[7].set_exception(RpcError("gone"))
    assert len(caplog.records) == bool(why_lost)


def test_what_comes_together_is_told_together_by_kind_and_addressee(
    notice_sender: NoticeSender, others: Others
) -> None:
    for i in range(3):
        notice_sender.enqueue(others.hear, 1, i)
        notice_sender.enqueue(others.hear, 2, i)
        notice_sender.enqueue(others.hear_otherwise, 1, i)
    notice_sender.flush()
    items: dict[Any, list[Any]] = {}
    for addressee, some in others.told:
        items.setdefault(addressee, []).extend(some)
    assert items == {1: [0, 1, 2], 2: [0, 1, 2], "1'": [0, 1, 2]}
    # At most the first notice was sent alone, before the others were added.
    assert len(others.told) <= 4


def test_what_gathers_is_not_told_before_its_moment_is_over(
    others: Others, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notices, "TOGETHER_S", 60.0)
    notice_sender = NoticeSender(others.send)  # type: ignore[arg-type]
    notice_sender.start()
    for i in range(3):
        notice_sender.enqueue(others.hear, 1, i)
    assert others.told == []
    notice_sender.flush()
    assert [item for _, items in others.told for item in items] == [0, 1, 2]
    notice_sender.close()


def test_the_end_of_a_context_waits_for_a_thread_that_is_late_with_many_notes(
    others: Others, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until its notice arrives, a worker keeps the values of an ended context."""
    monkeypatch.setattr(notices, "TOGETHER_S", 60.0)
    monkeypatch.setattr(notices, "_FOR_A_MOMENT_S", 5.0)
    notice_sender = NoticeSender(others.send)  # type: ignore[arg-type]
    notice_sender.start()

    def end(count: int) -> None:
        for i in range(count):
            notice_sender.enqueue(others.hear, 1, i)
        notice_sender.wait_if_late()

    notice_sender._sent_at -= 2 * notices._LATE_S
    end(3)  # few notes keep few values
    assert others.told == []
    notice_sender._sent_at += 60.0
    end(100)  # many notes, but the thread is not late
    assert others.told == []
    notice_sender._sent_at -= 120.0
    end(1)
    assert sum(len(items) for _, items in others.told) == 104
    notice_sender.close()


def test_each_note_wakes_the_thread_that_tells_it(
    notice_sender: NoticeSender, others: Others
) -> None:
    for i in range(5):
        notice_sender.enqueue(others.hear, 1, i)
        assert others.wait_for(i + 1)


def test_one_message_holds_so_much_and_no_more(notice_sender: NoticeSender, others: Others) -> None:
    for i in range(2 * _MOST + 1):
        notice_sender.enqueue(others.hear, 1, i)
    notice_sender.flush()
    assert [i for _, items in others.told for i in items] == [*range(2 * _MOST + 1)]
    assert all(len(items) <= _MOST for _, items in others.told)


@pytest.mark.parametrize("error", [RpcError("gone"), KeyError("a mistake of ours")])
def test_an_error_is_logged_and_the_next_notes_are_told(
    notice_sender: NoticeSender, others: Others, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    others.errors.append(error)
    with caplog.at_level(logging.INFO, "fastdist"):
        notice_sender.enqueue(others.hear, 1, "lost")
        notice_sender.flush()
        notice_sender.enqueue(others.hear, 1, "told")
        notice_sender.flush()
    assert others.told == [(1, ["told"])]
    assert [record.exc_info[1] for record in caplog.records if record.exc_info] == [error]


def test_nothing_that_a_note_was_about_outlives_the_telling(notice_sender: NoticeSender) -> None:
    class Thing:
        pass

    thing = Thing()
    ended = threading.Event()
    weakref.finalize(thing, ended.set)
    notice_sender.enqueue(lambda addressee, items: None, None, thing)
    del thing
    notice_sender.flush()
    gc.collect()
    assert ended.wait(5.0)


def test_after_the_end_nothing_is_told_nothing_waits_and_no_thread_is_left(
    others: Others,
) -> None:
    notice_sender = NoticeSender(others.send)  # type: ignore[arg-type]
    notice_sender.start()
    notice_sender.close()
    notice_sender.enqueue(others.hear, 1, 1)
    notice_sender.flush()
    notice_sender.close()
    assert others.told == []
    assert notices.NAME not in [thread.name for thread in threading.enumerate()]


def test_a_note_that_nobody_can_sort_loses_no_other_one(
    notice_sender: NoticeSender, others: Others, caplog: pytest.LogCaptureFixture
) -> None:
    unhashable: list[int] = []
    with caplog.at_level(logging.ERROR, "fastdist"):
        notice_sender.enqueue(others.hear, unhashable, "lost")
        notice_sender.flush()
        notice_sender.enqueue(others.hear, 1, "told")
        notice_sender.flush()
    assert others.told == [(1, ["told"])]
    assert "unhashable" in caplog.text


def test_a_turn_that_fails_as_a_whole_does_not_end_the_thread(
    monkeypatch: pytest.MonkeyPatch, others: Others, caplog: pytest.LogCaptureFixture
) -> None:
    notice_sender = NoticeSender(others.send)  # type: ignore[arg-type]
    has_failed = threading.Event()
    send_gathered = notice_sender.send_gathered

    def fail_once(*, sleep: bool = False) -> None:
        if not has_failed.is_set():
            has_failed.set()
            raise MemoryError("not now")
        send_gathered(sleep=sleep)

    monkeypatch.setattr(notice_sender, "send_gathered", fail_once)
    with caplog.at_level(logging.ERROR, "fastdist"):
        notice_sender.start()
        assert has_failed.wait(20)
        notice_sender.enqueue(others.hear, 1, "told")
        notice_sender.flush()
    assert others.told == [(1, ["told"])] and "not now" in caplog.text
    notice_sender.close()
