"""The claim: releases travel together, soon, and cost those who release next to nothing."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

import pytest

from fastdist.distributed.autograd import cleaner as cleaners
from fastdist.distributed.autograd.cleaner import Cleaner


class Told:
    """What was told to whom, and who wants to see it."""

    def __init__(self) -> None:
        self.said: list[tuple[int, list[int]]] = []
        self.fails = False
        self._changed = threading.Condition()

    def tell(self, worker_id: int, context_ids: Sequence[int]) -> None:
        with self._changed:
            self.said.append((worker_id, list(context_ids)))
            self._changed.notify_all()
        if self.fails:
            raise RuntimeError("on purpose")

    def wait_for(self, count: int, timeout_s: float = 5.0) -> bool:
        with self._changed:
            return self._changed.wait_for(
                lambda: sum(len(ids) for _, ids in self.said) >= count, timeout_s
            )


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def cleaner(told: Told) -> Iterator[Cleaner]:
    cleaner = Cleaner(told.tell)
    yield cleaner
    cleaner.stop()


def test_releases_of_a_moment_travel_in_one_message_to_each_worker(
    cleaner: Cleaner, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleaners, "TOGETHER_S", 60.0)
    for context_id in range(3):
        cleaner.add({1, 2}, context_id)
    assert not told.wait_for(1, timeout_s=0.05)
    cleaner.flush()  # as its thread does when the moment is over
    assert sorted(told.said) == [(1, [0, 1, 2]), (2, [0, 1, 2])]


def test_a_release_wakes_a_thread_that_sleeps(
    cleaner: Cleaner, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleaners, "AWAKE_S", 0.0)
    for context_id in range(5):
        cleaner.add({1}, context_id)
        assert told.wait_for(context_id + 1)


def test_a_message_that_fails_does_not_keep_later_ones(cleaner: Cleaner, told: Told) -> None:
    told.fails = True
    cleaner.add({1}, 5)
    assert told.wait_for(1)
    cleaner.add({1}, 6)
    assert told.wait_for(2)


def test_a_cleaner_that_was_stopped_begins_again(cleaner: Cleaner, told: Told) -> None:
    cleaner.add({1}, 5)
    cleaner.stop()
    assert cleaners.NAME not in [thread.name for thread in threading.enumerate()]
    told.said.clear()
    cleaner.add({1}, 6)
    assert told.wait_for(1)


def test_a_thread_that_could_not_start_starts_with_the_next_release(
    told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    cleaner = Cleaner(told.tell)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", fail)
        with pytest.raises(RuntimeError, match="can't start"):
            cleaner.add([1], 5)
    cleaner.add([1], 6)
    assert told.wait_for(2) and told.said == [(1, [5, 6])]
    cleaner.stop()


def test_a_release_while_the_cleaner_stops_does_not_keep_its_thread() -> None:
    is_telling, may_go_on, is_joined = (threading.Event() for _ in range(3))

    def tell(worker_id: int, context_ids: Sequence[int]) -> None:
        is_telling.set()
        assert may_go_on.wait(5)

    cleaner = Cleaner(tell)
    cleaner.add([1], 5)
    assert is_telling.wait(5)
    first = cleaner._thread
    assert first is not None
    join = first.join

    def note_and_join(timeout: float | None = None) -> None:
        is_joined.set()
        join(5)

    first.join = note_and_join  # type: ignore[method-assign]
    stopping = threading.Thread(target=cleaner.stop)
    stopping.start()
    assert is_joined.wait(5)
    cleaner.add([1], 6)
    may_go_on.set()
    stopping.join(10)
    assert not first.is_alive()
    cleaner.stop()
