"""Notes on references are told soon, together, and whatever one of them runs into."""

from __future__ import annotations

import gc
import logging
import threading
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from fastdist.core.errors import RpcError
from fastdist.distributed.rpc.rref_notices import _MOST, Notices


class Listener:
    """Notes down what it is told, and may refuse."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, list[Any]]] = []
        self.errors: list[Exception] = []

    def tell(self, addressee: Any, items: Sequence[Any]) -> None:
        if self.errors:
            raise self.errors.pop()
        self.told.append((addressee, [*items]))

    def tell_otherwise(self, addressee: Any, items: Sequence[Any]) -> None:
        self.told.append((f"{addressee}'", [*items]))


@pytest.fixture
def notices() -> Iterator[Notices]:
    notices = Notices()
    notices.start()
    yield notices
    notices.close()


@pytest.fixture
def listener() -> Listener:
    return Listener()


def test_what_comes_together_is_told_together_by_kind_and_addressee(
    notices: Notices, listener: Listener
) -> None:
    for i in range(3):
        notices.put(listener.tell, 1, i)
        notices.put(listener.tell, 2, i)
        notices.put(listener.tell_otherwise, 1, i)
    notices.flush()
    items = {}
    for addressee, some in listener.told:
        items.setdefault(addressee, []).extend(some)
    assert items == {1: [0, 1, 2], 2: [0, 1, 2], "1'": [0, 1, 2]}
    # At most the first note went alone, before the others had come.
    assert len(listener.told) <= 4


def test_one_message_holds_so_much_and_no_more(notices: Notices, listener: Listener) -> None:
    for i in range(2 * _MOST + 1):
        notices.put(listener.tell, 1, i)
    notices.flush()
    assert [i for _, items in listener.told for i in items] == [*range(2 * _MOST + 1)]
    assert all(len(items) <= _MOST for _, items in listener.told)


@pytest.mark.parametrize("error", [RpcError("gone"), KeyError("a mistake of ours")])
def test_an_error_is_logged_and_the_next_notes_are_told(
    notices: Notices, listener: Listener, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    listener.errors.append(error)
    with caplog.at_level(logging.INFO, "fastdist"):
        notices.put(listener.tell, 1, "lost")
        notices.flush()
        notices.put(listener.tell, 1, "told")
        notices.flush()
    assert listener.told == [(1, ["told"])]
    assert [record.exc_info[1] for record in caplog.records if record.exc_info] == [error]


def test_nothing_that_a_note_was_about_outlives_the_telling(
    notices: Notices, listener: Listener
) -> None:
    class Thing:
        pass

    thing = Thing()
    ended = threading.Event()
    weakref.finalize(thing, ended.set)
    notices.put(lambda addressee, items: None, None, thing)
    del thing
    notices.flush()
    gc.collect()
    assert ended.wait(5.0)


def test_after_the_end_nothing_is_told_and_nothing_waits(listener: Listener) -> None:
    notices = Notices()
    notices.flush()
    notices.close()
    notices.put(listener.tell, 1, 1)
    notices.start()
    notices.flush()
    assert listener.told == []
